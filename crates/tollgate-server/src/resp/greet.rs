//! What ordinary clients send on connect, and to see whether anybody is there.

use std::hint::black_box;

use super::parse::number;
use super::session::RespSession;
use super::write::{Protocol, Writer, shown};
use crate::bounds::DATABASES;
use crate::client_limits::Database;
use crate::resp::bounds::MAX_CLIENT_NAME;

type Answered = Result<(), String>;

/// Answers what may be asked without a password; `None` if it is none of those.
pub(super) fn before_password(
    session: &mut RespSession,
    name: &[u8],
    arguments: &[&[u8]],
    writer: &mut Writer<'_>,
) -> Option<Answered> {
    let is = |command: &str| name.eq_ignore_ascii_case(command.as_bytes());
    if is("HELLO") {
        Some(hello(session, &arguments[1..], writer))
    } else if is("AUTH") {
        Some(auth(session, &arguments[1..], writer))
    } else if is("QUIT") {
        session.over = true;
        writer.simple("OK");
        Some(Ok(()))
    } else {
        None
    }
}

/// Answers the rest; `None` if there is no such command.
pub(super) fn answer(
    session: &mut RespSession,
    name: &[u8],
    arguments: &[&[u8]],
    writer: &mut Writer<'_>,
) -> Option<Answered> {
    let is = |command: &str| name.eq_ignore_ascii_case(command.as_bytes());
    Some(if is("PING") {
        ping(arguments, writer)
    } else if is("ECHO") {
        echo(arguments, writer)
    } else if is("SELECT") {
        select(session, arguments, writer)
    } else if is("CLIENT") {
        client(session, &arguments[1..], writer)
    } else if is("COMMAND") {
        command(&arguments[1..], writer)
    } else if is("INFO") {
        info(session, writer)
    } else {
        return None;
    })
}

fn ping(arguments: &[&[u8]], writer: &mut Writer<'_>) -> Answered {
    match arguments {
        [_] => writer.simple("PONG"),
        [_, message] => writer.bulk(message),
        _ => return usage("PING [message]"),
    }
    Ok(())
}

fn echo(arguments: &[&[u8]], writer: &mut Writer<'_>) -> Answered {
    match arguments {
        [_, message] => writer.bulk(message),
        _ => return usage("ECHO message"),
    }
    Ok(())
}

fn select(session: &mut RespSession, arguments: &[&[u8]], writer: &mut Writer<'_>) -> Answered {
    let [_, index] = arguments else { return usage("SELECT n") };
    let Some(database) = number(index).and_then(Database::new) else {
        let last = DATABASES - 1;
        return Err(format!("ERR DB index is {}, must be from 0 to {last}", shown(index)));
    };
    session.database = database;
    writer.simple("OK");
    Ok(())
}

fn client(session: &mut RespSession, arguments: &[&[u8]], writer: &mut Writer<'_>) -> Answered {
    let [verb, rest @ ..] = arguments else {
        return usage("CLIENT SETNAME name | GETNAME | SETINFO attr value | ID");
    };
    let is = |word: &str| verb.eq_ignore_ascii_case(word.as_bytes());
    match rest {
        [name] if is("SETNAME") => {
            session.name = checked_name(name)?.into();
            writer.simple("OK");
        }
        [] if is("GETNAME") && session.name.is_empty() => writer.null(),
        [] if is("GETNAME") => writer.bulk(&session.name),
        [_, _] if is("SETINFO") => writer.simple("OK"),
        [] if is("ID") => writer.integer(session.id),
        _ => {
            return Err(format!(
                "ERR unknown subcommand or wrong number of arguments for CLIENT {}, must be \
                 SETNAME name, GETNAME, SETINFO attr value or ID",
                shown(verb)
            ));
        }
    }
    Ok(())
}

fn checked_name(name: &[u8]) -> Result<&[u8], String> {
    if name.len() > MAX_CLIENT_NAME {
        let length = name.len();
        return Err(format!(
            "ERR client name is {length} bytes, must be at most {MAX_CLIENT_NAME}"
        ));
    }
    if !name.iter().all(u8::is_ascii_graphic) {
        return Err(format!(
            "ERR client name is {}, must be printable without spaces",
            shown(name)
        ));
    }
    Ok(name)
}

/// Clients ask for the commands to complete what is typed: there is nothing they must know.
fn command(arguments: &[&[u8]], writer: &mut Writer<'_>) -> Answered {
    match arguments {
        [verb, ..] if verb.eq_ignore_ascii_case(b"COUNT") => writer.integer(0),
        [verb, ..] if verb.eq_ignore_ascii_case(b"DOCS") => writer.map(0),
        _ => writer.array(0),
    }
    Ok(())
}

fn info(session: &RespSession, writer: &mut Writer<'_>) -> Answered {
    let counts = session.shared.counts();
    let live_keys = session.shared.app.backend.live_keys();
    let text = format!(
        "# Server\r\nserver_name:tollgate\r\ntollgate_version:{}\r\nredis_mode:standalone\r\n\
         # Clients\r\nconnected_clients:{}\r\n\
         # Persistence\r\nloading:0\r\n\
         # Stats\r\ntotal_connections_received:{}\r\nrejected_connections:{}\r\n\
         protocol_errors:{}\r\ntimed_out_connections:{}\r\nerror_replies:{}\r\n\
         # Replication\r\nrole:master\r\n\
         # Keyspace\r\n{}",
        env!("CARGO_PKG_VERSION"),
        counts.open,
        counts.accepted,
        counts.refused,
        counts.protocol_errors,
        counts.timed_out,
        counts.errors,
        live_keys.map(|keys| format!("keys:{keys}\r\n")).unwrap_or_default(),
    );
    writer.bulk(text.as_bytes());
    Ok(())
}

fn hello(session: &mut RespSession, arguments: &[&[u8]], writer: &mut Writer<'_>) -> Answered {
    let (protocol, mut options) = match arguments {
        [] => (session.protocol, arguments),
        [version, rest @ ..] => match number(version) {
            Some(2) => (Protocol::Resp2, rest),
            Some(3) => (Protocol::Resp3, rest),
            _ => return Err("NOPROTO unsupported protocol version, must be 2 or 3".to_owned()),
        },
    };
    let mut name = None;
    loop {
        options = match options {
            [] => break,
            [word, _user, password, rest @ ..] if word.eq_ignore_ascii_case(b"AUTH") => {
                session.authenticate(password)?;
                rest
            }
            [word, given, rest @ ..] if word.eq_ignore_ascii_case(b"SETNAME") => {
                name = Some(checked_name(given)?);
                rest
            }
            _ => return usage("HELLO [2|3 [AUTH user password] [SETNAME name]]"),
        };
    }
    if !session.authenticated {
        return Err("NOAUTH HELLO must be called with the client already authenticated, \
                    send HELLO 3 AUTH user password"
            .to_owned());
    }
    session.name = name.map_or_else(|| std::mem::take(&mut session.name), Box::from);
    session.protocol = protocol;
    writer.protocol = protocol;
    greeting(session.id, writer);
    Ok(())
}

fn greeting(id: i64, writer: &mut Writer<'_>) {
    writer.map(7);
    for (name, value) in [
        ("server", "tollgate"),
        ("version", env!("CARGO_PKG_VERSION")),
        ("mode", "standalone"),
        ("role", "master"),
    ] {
        writer.bulk(name.as_bytes());
        writer.bulk(value.as_bytes());
    }
    writer.bulk(b"proto");
    writer.integer(match writer.protocol {
        Protocol::Resp2 => 2,
        Protocol::Resp3 => 3,
    });
    writer.bulk(b"id");
    writer.integer(id);
    writer.bulk(b"modules");
    writer.array(0);
}

fn auth(session: &mut RespSession, arguments: &[&[u8]], writer: &mut Writer<'_>) -> Answered {
    match arguments {
        [password] | [_, password] => session.authenticate(password)?,
        _ => return usage("AUTH [user] password"),
    }
    writer.simple("OK");
    Ok(())
}

impl RespSession {
    fn authenticate(&mut self, given: &[u8]) -> Answered {
        let Some(password) = &self.shared.password else {
            return Err("ERR AUTH called without any password configured, leave it out".to_owned());
        };
        let guesses = &self.shared.guesses;
        guesses.may_try(self.peer)?;
        if !is_same(password.as_bytes(), given) {
            guesses.count(self.peer, self.shared.app.backend.clock().now());
            return Err("WRONGPASS invalid username-password pair or user is disabled.".to_owned());
        }
        self.authenticated = true;
        Ok(())
    }
}

/// Compares in a time that says nothing of where they differ, nor how long the password is.
fn is_same(password: &[u8], given: &[u8]) -> bool {
    let differs = given.iter().enumerate().fold(0, |differs, (at, byte)| {
        let expected = password.get(at).copied().unwrap_or(!byte);
        black_box(differs | (byte ^ expected))
    });
    differs == 0 && password.len() == given.len()
}

fn usage(right: &str) -> Answered {
    Err(format!("ERR wrong number of arguments, must be {right}"))
}

#[cfg(test)]
mod tests {
    use super::is_same;

    #[test]
    fn only_the_whole_password_is_the_password() {
        assert!(is_same(b"secret", b"secret"));
        for wrong in [b"".as_slice(), b"s", b"secre", b"secreT", b"secret\0", b"secretsecret"] {
            assert!(!is_same(b"secret", wrong), "{}", wrong.escape_ascii());
        }
    }
}
