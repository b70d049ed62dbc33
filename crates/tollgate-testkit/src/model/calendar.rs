//! The calendar: two moments are in one window if a wall calendar and clock show the same.

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use tollgate::CalendarUnit;

#[derive(Debug)]
pub(super) struct Zone(TimeZone);

impl Zone {
    pub(super) fn new(name: Option<&str>) -> Zone {
        Zone(TimeZone::get(name.unwrap_or("UTC")).expect("traffic has known zones"))
    }
}

/// What tells a window apart: a date, and within it the hour and the minute. An hour that is
/// lived through twice, when clocks go back, is two windows: the offset differs.
type Face = (Date, i8, i8, i32);

pub(super) fn same_window(moments: [u128; 2], unit: CalendarUnit, zone: &Zone) -> bool {
    let [first, second] = moments.map(|at| face(at, unit, zone));
    first == second
}

fn face(at: u128, unit: CalendarUnit, zone: &Zone) -> Face {
    let nanos = i128::try_from(at).expect("a moment is far below 2^127");
    let Ok(moment) = Timestamp::from_nanosecond(nanos) else {
        // Past the last year of the calendar there is no other window.
        return (Date::MAX, 0, 0, 0);
    };
    let (offset, shown) = {
        let zoned = moment.to_zoned(zone.0.clone());
        (zoned.offset().seconds(), zoned.datetime())
    };
    let date = shown.date();
    match unit {
        CalendarUnit::Minute => (date, shown.hour(), shown.minute(), offset),
        CalendarUnit::Hour => (date, shown.hour(), 0, offset),
        CalendarUnit::Day => (date, 0, 0, 0),
        CalendarUnit::Week => (monday_of(date), 0, 0, 0),
        CalendarUnit::Month => (date.first_of_month(), 0, 0, 0),
        other => unimplemented!("no model of {other:?} yet"),
    }
}

fn monday_of(date: Date) -> Date {
    let mut day = date;
    while day.weekday() != jiff::civil::Weekday::Monday {
        day = day.yesterday().expect("the first Monday is long gone");
    }
    day
}
