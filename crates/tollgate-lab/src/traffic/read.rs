//! Traffic from a text.

use std::str::FromStr;
use std::time::Duration;

use super::words::Words;
use super::{Clients, LONGEST, MOST_CLIENTS, Retry, Shape, Traffic, TrafficError};

/// Every shape with an example, in the order in which they are told.
const SHAPES: [(&str, &str); 7] = [
    ("steady", "steady 20/s"),
    ("poisson", "poisson 120/s"),
    ("bursts", "bursts 50 every 10s"),
    ("onoff", "onoff 50/s on 5s off 10s"),
    ("ramp", "ramp 0/s to 100/s"),
    ("edge", "edge 100 of 1min"),
    ("storm", "storm 300 retry after"),
];

const OPTIONS: [&str; 8] = ["for", "at", "from", "as", "cost", "retry", "tries", "with"];

/// How long a text may be: it comes from a command line, or from somebody's browser.
const LONGEST_TEXT: usize = 1_024;

/// How long traffic lasts if nobody says.
const A_MINUTE: Duration = Duration::from_secs(60);

impl FromStr for Traffic {
    type Err = TrafficError;

    fn from_str(text: &str) -> Result<Traffic, TrafficError> {
        if text.len() > LONGEST_TEXT {
            let message = format!("it is {} bytes long, at most {LONGEST_TEXT}", text.len());
            return Err(TrafficError(message));
        }
        let mut words = Words::of(text);
        let shape = read_shape(&mut words)?;
        let mut traffic = Traffic {
            text: text.split_ascii_whitespace().collect::<Vec<_>>().join(" "),
            shape,
            start: Duration::ZERO,
            length: A_MINUTE,
            clients: Clients::Evenly(1),
            name: "client".to_owned(),
            cost: 1,
            // A storm without retries would be a burst.
            retry: match shape {
                Shape::Storm { .. } => Retry::After { jitter: Duration::ZERO },
                _ => Retry::Never,
            },
            tries: u32::MAX,
            attributes: Vec::new(),
        };
        while let Some(option) = words.next() {
            traffic.read_option(&option.to_ascii_lowercase(), &mut words)?;
        }
        traffic.check()?;
        Ok(traffic)
    }
}

fn read_shape(words: &mut Words<'_>) -> Result<Shape, TrafficError> {
    let Some(name) = words.next() else {
        return Err(TrafficError(format!("it is empty, write for example {:?}", SHAPES[1].1)));
    };
    let name = name.to_ascii_lowercase();
    let usage = SHAPES.iter().find(|(shape, _)| *shape == name).map_or("", |(_, usage)| usage);
    Ok(match name.as_str() {
        "steady" => Shape::Steady(words.rate(&name)?),
        "poisson" => Shape::Poisson(words.rate(&name)?),
        "bursts" => {
            let size = words.number(&name)?;
            words.expect("every", usage)?;
            Shape::Bursts { size, every: words.time("every")? }
        }
        "onoff" => {
            let rate = words.rate(&name)?;
            words.expect("on", usage)?;
            let on = words.time("on")?;
            words.expect("off", usage)?;
            Shape::OnOff { rate, on, off: words.time("off")? }
        }
        "ramp" => {
            let from = words.rate_or_zero(&name)?;
            words.expect("to", usage)?;
            Shape::Ramp { from, to: words.rate_or_zero("to")? }
        }
        "edge" => {
            let size = words.number(&name)?;
            words.expect("of", usage)?;
            Shape::Edge { size, window: words.time("of")? }
        }
        "storm" => Shape::Storm { size: words.number(&name)? },
        _ => return Err(unknown("shape", &name, SHAPES.map(|(shape, _)| shape))),
    })
}

impl Traffic {
    fn read_option(&mut self, option: &str, words: &mut Words<'_>) -> Result<(), TrafficError> {
        match option {
            "for" => self.length = words.time("for")?,
            "at" => self.start = words.time_or_zero("at")?,
            "as" => self.name = words.name("as")?.to_owned(),
            "cost" => self.cost = words.number_or_zero("cost")?,
            "tries" => self.tries = u32::try_from(words.number("tries")?).unwrap_or(u32::MAX),
            "from" => {
                let many = words.number("from")?;
                if !words.take("clients") {
                    words.expect("client", "from 100 clients")?;
                }
                self.clients = match words.take("zipf") {
                    true => Clients::Zipf(many, words.thousandths("zipf")?),
                    false => Clients::Evenly(many),
                };
            }
            "retry" => self.retry = read_retry(words)?,
            "with" => {
                while let Some(word) = words.next() {
                    self.attributes.push(read_attribute(word)?);
                }
            }
            _ => return Err(unknown("word", option, OPTIONS)),
        }
        Ok(())
    }

    fn check(&self) -> Result<(), TrafficError> {
        let wrong = |message: String| Err(TrafficError(message));
        let (Clients::Evenly(many) | Clients::Zipf(many, _)) = self.clients;
        if many > MOST_CLIENTS {
            return wrong(format!("it is from {many} clients, at most {MOST_CLIENTS}"));
        }
        if self.end() > LONGEST {
            return wrong("it ends after more than 10 years".to_owned());
        }
        match self.shape {
            Shape::Ramp { from, to } if from.count == 0 && to.count == 0 => {
                wrong("a ramp from 0/s to 0/s has no requests".to_owned())
            }
            Shape::Edge { window, .. } if window > self.length => wrong(format!(
                "the window of {window:?} does not end within {:?}, write a longer \"for\"",
                self.length
            )),
            // Less would be no distance at all.
            Shape::Edge { window, .. } if window < Duration::from_millis(1) => {
                wrong("the window must be at least 1ms".to_owned())
            }
            _ => Ok(()),
        }
    }
}

fn read_retry(words: &mut Words<'_>) -> Result<Retry, TrafficError> {
    let how = words.next().map(str::to_ascii_lowercase).unwrap_or_default();
    Ok(match how.as_str() {
        "after" => Retry::After {
            jitter: match words.take("jitter") {
                true => words.time_or_zero("jitter")?,
                false => Duration::ZERO,
            },
        },
        "every" => Retry::Every(words.time("every")?),
        "backoff" => Retry::Backoff(words.time("backoff")?),
        "never" => Retry::Never,
        _ => return Err(unknown("retry", &how, ["after", "every", "backoff", "never"])),
    })
}

fn read_attribute(word: &str) -> Result<(String, String), TrafficError> {
    match word.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err(TrafficError(format!(
            "{word:?} after \"with\" is not name=value, such as user={{client}}"
        ))),
    }
}

/// What is wrong with a word that is none of those that may stand there.
fn unknown<const N: usize>(what: &str, given: &str, known: [&str; N]) -> TrafficError {
    let close = |word: &&&str| strsim::damerau_levenshtein(given, word) <= 2;
    let guess = match known.iter().filter(close).min_by_key(|word| strsim::levenshtein(given, word))
    {
        Some(word) => format!(", did you mean {word:?}?"),
        None => String::new(),
    };
    TrafficError(format!("unknown {what} {given:?}{guess} (there are {})", known.join(", ")))
}
