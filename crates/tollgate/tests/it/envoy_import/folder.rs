//! Several files at once, one for each domain.

use tollgate::Policy;

use super::applying;

fn file(domain: &str, rest: &str) -> String {
    format!(
        "domain: {domain}\ndescriptors:\n  - key: ip\n    rate_limit: {{unit: second, requests_per_unit: 9{rest}}}\n"
    )
}

#[test]
fn a_domain_never_meets_the_limits_of_another() {
    let (edge, mail) = (file("edge", ""), file("mail", ""));
    let loaded = Policy::from_envoy_files([("a.yaml", &*edge), ("b.yaml", &*mail)]).unwrap();
    assert!(loaded.warnings.is_empty(), "{:?}", loaded.warnings);
    for (domain, rule) in [("edge", "edge|ip"), ("mail", "mail|ip")] {
        let applies = applying(&loaded.policy, domain, &[("ip", "::1")]);
        assert_eq!(applies.iter().map(|of| of.rule).collect::<Vec<_>>(), [rule]);
    }
}

#[test]
fn a_name_that_two_files_give_is_told_apart() {
    let (edge, mail) = (file("edge", ", name: burst"), file("mail", ", name: burst"));
    let loaded = Policy::from_envoy_files([("a.yaml", &*edge), ("b.yaml", &*mail)]).unwrap();
    let names: Vec<_> = loaded.policy.rules.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(names, ["burst|edge|ip", "burst|mail|ip"]);
    assert_eq!(loaded.warnings.len(), 2);
    assert_eq!(loaded.warnings[1].file, "b.yaml");
}

#[test]
fn a_domain_in_two_files_is_refused() {
    let edge = file("edge", "");
    let error = Policy::from_envoy_files([("a.yaml", &*edge), ("b.yaml", &*edge)]).unwrap_err();
    let expected = "b.yaml: domain \"edge\" is also that of a.yaml, put both into one file";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn a_folder_is_refused_with_every_error_of_every_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let error = Policy::load_envoy_folder(path).unwrap_err();
    assert!(error.to_string().ends_with("must have one for each domain"), "{error}");
    std::fs::write(path.join("a.yaml"), "domain: a\nnonsense: 1\n").unwrap();
    std::fs::write(path.join("b.yml"), "domain: [").unwrap();
    std::fs::write(path.join("c.yaml"), b"domain: \xff").unwrap();
    std::fs::write(path.join(".d.yaml"), "not looked at").unwrap();
    std::fs::write(path.join("e.txt"), "not looked at").unwrap();
    std::fs::create_dir(path.join("f.yaml")).unwrap();
    let error = Policy::load_envoy_folder(path).unwrap_err();
    let of = |name: &str| error.findings.iter().any(|finding| finding.file.ends_with(name));
    assert!(of("a.yaml") && of("b.yml") && of("c.yaml"), "{error}");
    assert_eq!(error.findings.len(), 3, "{error}");
    for (name, domain) in [("a.yaml", "a"), ("b.yml", "b"), ("c.yaml", "c")] {
        std::fs::write(path.join(name), file(domain, "")).unwrap();
    }
    assert_eq!(Policy::load_envoy_folder(path).unwrap().policy.rules.len(), 3);
    let file = path.join("a.yaml");
    let error = Policy::load_envoy_folder(&file).unwrap_err();
    let reason = std::fs::read_dir(&file).unwrap_err();
    assert_eq!(error.findings[0].file, file.display().to_string());
    assert_eq!(error.findings[0].message, format!("cannot be read as a folder: {reason}"));
}
