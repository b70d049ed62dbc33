//! A service of your own, tested without sleeping: the clock stands still until the test moves it.

use std::time::Duration;

use tollgate::{Clock, Limit, LimitError, Limiter, ManualClock};

/// What is tested: five wrong passwords in fifteen minutes, then no more tries.
struct Login {
    tries: Limiter,
}

impl Login {
    fn new(clock: impl Into<Clock>) -> Result<Login, LimitError> {
        let limit = Limit::sliding_log(5, Duration::from_secs(15 * 60));
        Ok(Login { tries: Limiter::builder(limit).clock(clock).build()? })
    }

    fn log_in(&self, user: &str, password: &str) -> &'static str {
        if !self.tries.check(user).is_allowed() {
            return "try later";
        }
        if password != "correct horse" {
            return "wrong password";
        }
        self.tries.reset(user);
        "welcome"
    }
}

fn a_guesser_waits_and_everybody_else_does_not() -> Result<(), LimitError> {
    let clock = ManualClock::new();
    let login = Login::new(clock.clone())?;
    for guess in ["1234", "hunter2", "letmein", "swordfish", "password"] {
        assert_eq!(login.log_in("ana", guess), "wrong password");
    }
    assert_eq!(login.log_in("ana", "correct horse"), "try later");
    assert_eq!(login.log_in("ben", "correct horse"), "welcome");

    clock.advance(Duration::from_secs(15 * 60) - Duration::from_nanos(1));
    assert_eq!(login.log_in("ana", "correct horse"), "try later", "a nanosecond too early");
    clock.advance(Duration::from_nanos(1));
    assert_eq!(login.log_in("ana", "correct horse"), "welcome");
    Ok(())
}

#[test]
fn five_guesses_then_a_quarter_of_an_hour() -> Result<(), LimitError> {
    a_guesser_waits_and_everybody_else_does_not()
}

fn main() -> Result<(), LimitError> {
    a_guesser_waits_and_everybody_else_does_not()?;
    println!("fifteen minutes passed in no time, to the nanosecond");

    // The service itself is given the machine's clock.
    assert_eq!(Login::new(Clock::system())?.log_in("ana", "correct horse"), "welcome");
    Ok(())
}
