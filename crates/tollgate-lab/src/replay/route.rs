//! Routes from paths: `/users/{id}` is one route, however many users there are.

use super::Mistake;

/// A route such as `/users/{id}/posts` or `/static/{*rest}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    text: String,
    segments: Vec<Segment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Text(String),
    /// `{id}`: one segment, whatever it is.
    Any,
    /// `{*rest}`: all that follows, at least one segment.
    Rest,
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// Where it does not begin with `/`, or something follows `{*rest}`.
    pub fn new(text: &str) -> Result<Template, Mistake> {
        let wrong = |why: &str| Mistake::new(format!("route {text:?} {why}"));
        let path = text.strip_prefix('/').ok_or_else(|| wrong("must begin with \"/\""))?;
        let segments: Vec<Segment> = path.split('/').map(Segment::new).collect();
        let rest = segments.iter().position(|segment| *segment == Segment::Rest);
        if rest.is_some_and(|at| at + 1 < segments.len()) {
            return Err(wrong("must end after \"{*…}\", which stands for all that follows"));
        }
        Ok(Template { text: text.to_owned(), segments })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub(super) fn fits(&self, path: &str) -> bool {
        let Some(path) = path.strip_prefix('/') else { return false };
        let mut parts = path.split('/');
        for segment in &self.segments {
            match (segment, parts.next()) {
                (Segment::Rest, Some(part)) => return !part.is_empty() || parts.next().is_some(),
                (Segment::Any, Some(part)) if !part.is_empty() => {}
                (Segment::Text(text), Some(part)) if text == part => {}
                _ => return false,
            }
        }
        parts.next().is_none()
    }
}

impl Segment {
    fn new(text: &str) -> Segment {
        match text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
            Some(name) if name.starts_with('*') => Segment::Rest,
            Some(_) => Segment::Any,
            None => Segment::Text(text.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_fits_the_paths_it_means() {
        let fits = |template: &str, path: &str| Template::new(template).unwrap().fits(path);
        assert!(fits("/users/{id}", "/users/42"));
        assert!(fits("/users/{id}/posts", "/users/42/posts"));
        assert!(fits("/static/{*rest}", "/static/a/b.css"));
        assert!(fits("/", "/"));
        for path in ["/users", "/users/", "/users/42/", "/users/42/posts", "users/42", "", "*"] {
            assert!(!fits("/users/{id}", path), "{path}");
        }
        assert!(!fits("/static/{*rest}", "/static/"));
        assert!(!fits("/static/{*rest}", "/static"));
    }

    #[test]
    fn a_template_that_makes_no_sense_is_refused() {
        for text in ["users/{id}", "", "/a/{*rest}/b"] {
            assert!(Template::new(text).is_err(), "{text}");
        }
    }
}
