//! What limits would do to traffic that is made up.

use super::*;

fn simulate(server: &TestServer, body: &str) -> Value {
    let answer = ask(server, READ, "POST /admin/v1/simulate", body);
    assert_eq!(answer.status, 200, "{body}: {answer:?}");
    answer.json()
}

#[test]
fn a_simulation_tells_what_a_limit_lets_through() {
    let server = operated();
    let body = r#"{"limits": ["100/min burst 20"], "traffic": ["steady 20/s for 1min"]}"#;
    let told = simulate(&server, body);
    let run = &told["runs"][0];
    assert_eq!((&run["offered"], &run["admitted"]), (&1200.into(), &119.into()), "{run}");
    assert_eq!(run["most_in_window"], 119);
    let sum = |name: &str| {
        run[name].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).sum::<u64>()
    };
    assert_eq!((sum("admitted_by_slot"), sum("refused_by_slot")), (119, 1081));
    assert_eq!(told, simulate(&server, body), "the same again");
    assert_eq!(server.gate().store().len(), 0, "no key is touched");
}

#[test]
fn algorithms_are_put_side_by_side() {
    let server = operated();
    let body =
        r#"{"limits": ["60/min"], "traffic": ["edge 60 of 1min for 4min"], "compare": true}"#;
    let told = simulate(&server, body);
    let most = |name: &str| {
        let runs = told["runs"].as_array().unwrap();
        runs.iter().find(|run| run["name"] == name).unwrap()["most_in_window"].as_u64().unwrap()
    };
    assert_eq!((most("fixed window"), most("sliding log")), (120, 60));
}

#[test]
fn what_would_be_too_much_work_is_refused() {
    let server = operated();
    let mut texts = Texts::default();
    for body in [
        r#"{"limits": ["1/s"], "traffic": ["steady 1000000/s for 1h"]}"#,
        r#"{"limits": ["1/s"], "traffic": ["steady 1/s from 1000000 clients"]}"#,
        r#"{"limits": [], "traffic": ["steady 1/s"]}"#,
        r#"{"limits": ["1/s"], "traffic": []}"#,
        r#"{"limits": ["fast"], "traffic": ["steady 1/s"]}"#,
        r#"{"limits": ["1/s"], "traffic": ["stedy 1/s"]}"#,
        r#"{"limits": ["1/s", "2/s"], "traffic": ["steady 1/s"], "compare": true}"#,
        r#"{"limits": ["1/s"]}"#,
    ] {
        let refused = ask(&server, READ, "POST /admin/v1/simulate", body);
        texts.add(&format!("POST /admin/v1/simulate {body}"), &refused.detail(400));
        simulate(&server, refused.json()["example"].as_str().unwrap());
    }
    let body = r#"{"limits": ["1/s"], "traffic": ["storm 5000 retry every 1ms for 1h"]}"#;
    // Retries make more requests than the traffic says.
    let answer = ask(&server, READ, "POST /admin/v1/simulate", body);
    texts.add(&format!("POST /admin/v1/simulate {body}"), &answer.detail(400));
    texts.assert_golden("admin", "simulate");
}
