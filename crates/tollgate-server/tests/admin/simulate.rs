//! What limits would do to traffic that is made up.

use super::*;

fn simulate(server: &Running, body: &str) -> Value {
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
    assert_eq!(server.gate.store().len(), 0, "no key is touched");
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
    for (body, says) in [
        (r#"{"limits": ["1/s"], "traffic": ["steady 1000000/s for 1h"]}"#, "at most 100000"),
        (r#"{"limits": ["1/s"], "traffic": ["steady 1/s from 1000000 clients"]}"#, "at most 1000 "),
        (r#"{"limits": [], "traffic": ["steady 1/s"]}"#, "from 1 to 8"),
        (r#"{"limits": ["1/s"], "traffic": []}"#, "from 1 to 4"),
        (r#"{"limits": ["fast"], "traffic": ["steady 1/s"]}"#, "the limit \"fast\""),
        (r#"{"limits": ["1/s"], "traffic": ["stedy 1/s"]}"#, "did you mean \"steady\""),
        (r#"{"limits": ["1/s", "2/s"], "traffic": ["steady 1/s"], "compare": true}"#, "one is"),
        (r#"{"limits": ["1/s"]}"#, "traffic"),
    ] {
        let problem = ask(&server, READ, "POST /admin/v1/simulate", body).problem(400);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(says), "{body}: {detail}");
        simulate(&server, problem["example"].as_str().unwrap());
    }
    let body = r#"{"limits": ["1/s"], "traffic": ["storm 5000 retry every 1ms for 1h"]}"#;
    let answer = ask(&server, READ, "POST /admin/v1/simulate", body);
    assert!([200, 400].contains(&answer.status), "retries end, too: {answer:?}");
}
