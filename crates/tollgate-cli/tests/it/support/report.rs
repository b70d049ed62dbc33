//! Reports of `tollgate bench` and `tollgate top`, without what varies.

/// A report in which durations are `{time}`, rates `{rate}`, the lines of the distribution one line
/// `up to {time} {answers}`, and columns one space apart. The line that tells whether the rate was
/// kept, which depends on the machine, is left out.
pub(crate) fn without_times(report: &str) -> String {
    let is_told = |line: &&str| !line.to_lowercase().starts_with("the rate was ");
    let mut lines: Vec<String> = report.lines().filter(is_told).map(in_words(time)).collect();
    for line in lines.iter_mut().filter(|line| line.starts_with("up to ")) {
        "up to {time} {answers}".clone_into(line);
    }
    lines.dedup();
    lines.join("\n") + "\n"
}

/// The line of a report that tells whether the rate was kept, with `{count}` for counts.
pub(crate) fn line_of_rate(report: &str) -> String {
    let line = report.lines().find(|line| line.to_lowercase().starts_with("the rate was "));
    let line = line.unwrap_or_else(|| panic!("no line of the rate in {report}"));
    in_words(count)(&in_words(time)(line)) + "\n"
}

/// A text in which every word that begins with a digit is `{n}`, and columns are one space apart.
pub(crate) fn without_figures(text: &str) -> String {
    text.lines().map(|line| in_words(figure)(line) + "\n").collect()
}

/// An error of `tollgate bench` about a server that ends the connection: whether its last bytes arrive
/// before the end does is up to the system, and the error tells one or the other.
pub(crate) fn without_reason_of_end(error: &str) -> String {
    let hint = "; a server that was told nothing else";
    let (start, end) = error.split_once(hint).unwrap_or_else(|| panic!("{error} has no hint"));
    let reasons = [" does not speak ", " ended the connection without an answer: "];
    let server = reasons.iter().find_map(|reason| Some(start.split_once(reason)?.0));
    let server = server.unwrap_or_else(|| panic!("{error} is about something else"));
    format!("{server} {{does not speak it, or ended the connection}}{hint}{end}")
}

/// Changes the words of a line, without the comma or semicolon at their end.
fn in_words(change: fn(&str) -> Option<&'static str>) -> impl Fn(&str) -> String {
    move |line| {
        let words = line.split_whitespace().map(|word| {
            let figure = word.trim_end_matches([',', ';']);
            let changed = change(figure).unwrap_or(figure);
            format!("{changed}{}", &word[figure.len()..])
        });
        words.collect::<Vec<_>>().join(" ")
    }
}

/// The placeholder of a word that is a duration or a rate.
fn time(word: &str) -> Option<&'static str> {
    let is_figure = word.starts_with(|c: char| c.is_ascii_digit());
    match word {
        _ if !is_figure => None,
        _ if word.ends_with("/s") => Some("{rate}"),
        _ if word.ends_with(['s', 'm', 'h']) => Some("{time}"),
        _ => None,
    }
}

/// The placeholder of a word that begins with a digit.
fn figure(word: &str) -> Option<&'static str> {
    word.starts_with(|c: char| c.is_ascii_digit()).then_some("{n}")
}

/// The placeholder of a word that is a count.
fn count(word: &str) -> Option<&'static str> {
    let is_count = word.chars().all(|c| c.is_ascii_digit() || c == ',');
    is_count.then_some("{count}")
}
