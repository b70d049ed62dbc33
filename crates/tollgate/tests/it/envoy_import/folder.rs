//! Several files at once, one for each domain.

use std::path::Path;

use tollgate::{EnvoyFolder, FolderLoaded, Policy};

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
    std::fs::write(path.join("a.yaml"), "domain: a\nnonsense: 1\n").unwrap();
    std::fs::write(path.join("b.yml"), "domain: [").unwrap();
    std::fs::write(path.join("c.yaml"), b"domain: \xff").unwrap();
    std::fs::write(path.join(".d.yaml"), "not looked at").unwrap();
    std::fs::write(path.join("e.txt"), "not looked at").unwrap();
    std::fs::create_dir(path.join("f.yaml")).unwrap();
    let error = Policy::load_envoy_folder(path).unwrap_err();
    let of = |name: &str| error.diagnostics.iter().any(|finding| finding.file.ends_with(name));
    assert!(of("a.yaml") && of("b.yml") && of("c.yaml"), "{error}");
    assert_eq!(error.diagnostics.len(), 3, "{error}");
    for (name, domain) in [("a.yaml", "a"), ("b.yml", "b"), ("c.yaml", "c")] {
        std::fs::write(path.join(name), file(domain, "")).unwrap();
    }
    assert_eq!(Policy::load_envoy_folder(path).unwrap().policy.rules.len(), 3);
    let file = path.join("a.yaml");
    let error = Policy::load_envoy_folder(&file).unwrap_err();
    let reason = std::fs::read_dir(&file).unwrap_err();
    assert_eq!(error.diagnostics[0].file, file.display().to_string());
    assert_eq!(error.diagnostics[0].message, format!("cannot be read as a folder: {reason}"));
}

/// The domains that limit something, and the rejected files with whether a good version is kept.
fn domains_and_rejected(loaded: &FolderLoaded) -> (Vec<String>, Vec<(&str, bool)>) {
    let rules = loaded.loaded.policy.rules.iter();
    let domains = rules.map(|rule| rule.name.replace("|ip", "")).collect();
    let rejected = loaded.rejected.iter().map(|file| (file.name.as_str(), file.keeps_last));
    (domains, rejected.collect())
}

fn write(folder: &Path, name: &str, text: &str) {
    std::fs::write(folder.join(name), text).unwrap();
}

#[test]
fn folder_without_files_has_no_rules_and_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let loaded = Policy::load_envoy_folder(folder.path()).unwrap();
    assert_eq!(loaded.policy, Policy::new());
    assert!(loaded.warnings[0].message.ends_with("add one for each domain"));
    let read = EnvoyFolder::new(folder.path()).load().unwrap();
    assert_eq!((read.loaded.warnings, read.rejected.len()), (loaded.warnings, 0));
    let error = EnvoyFolder::new(folder.path()).strict().load().unwrap_err();
    assert!(error.to_string().contains("has no file"), "{error}");
}

#[test]
fn file_that_is_wrong_is_rejected_and_the_others_are_loaded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    write(path, "a.yaml", "domain: a\nnonsense: 1\n");
    write(path, "b.yaml", &file("b", ""));
    write(path, "c.yaml", &file("b", ""));
    let read = EnvoyFolder::new(path).load().unwrap();
    let expected = (vec!["b".to_owned()], vec![("a.yaml", false), ("c.yaml", false)]);
    assert_eq!(domains_and_rejected(&read), expected);
    assert!(read.rejected[0].findings[0].message.starts_with("unknown key `nonsense`"));
    assert!(read.rejected[1].findings[0].message.contains("is also that of"));
    let error = EnvoyFolder::new(path).strict().load().unwrap_err();
    assert_eq!(error.diagnostics.len(), 2, "{error}");
}

#[test]
fn file_that_becomes_wrong_keeps_its_last_good_version_until_it_is_removed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for domain in ["a", "b"] {
        write(path, &format!("{domain}.yaml"), &file(domain, ""));
    }
    let folder = EnvoyFolder::new(path);
    let before = folder.load().unwrap().loaded.policy;
    write(path, "a.yaml", "domain: [");
    let read = folder.load().unwrap();
    let both = || vec!["a".to_owned(), "b".to_owned()];
    assert_eq!(domains_and_rejected(&read), (both(), vec![("a.yaml", true)]));
    assert_eq!(read.loaded.policy, before);
    assert!(read.rejected[0].is_new);
    assert!(!folder.load().unwrap().rejected[0].is_new, "it was reported");
    assert_eq!(folder.clone().rejected().len(), 1);

    write(path, "a.yaml", &file("a", ", name: new"));
    let read = folder.load().unwrap();
    assert_eq!((read.loaded.policy.rules[0].name.as_str(), read.rejected.len()), ("new", 0));
    assert_eq!(read.recovered, ["a.yaml"]);

    write(path, "a.yaml", "domain: [");
    assert_eq!(folder.load().unwrap().loaded.policy.rules[0].name, "new", "the newest good one");
    std::fs::remove_file(path.join("a.yaml")).unwrap();
    let read = folder.load().unwrap();
    assert_eq!(domains_and_rejected(&read), (vec!["b".to_owned()], vec![]));
    assert_eq!(read.recovered, Vec::<String>::new(), "it was removed");
}

#[test]
fn last_good_version_gives_way_to_a_file_that_has_its_domain_now() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    write(path, "a.yaml", &file("edge", ""));
    let folder = EnvoyFolder::new(path);
    folder.load().unwrap();
    write(path, "a.yaml", "domain: [");
    write(path, "b.yaml", &file("edge", ", name: moved"));
    let read = folder.load().unwrap();
    assert_eq!(domains_and_rejected(&read), (vec!["moved".to_owned()], vec![("a.yaml", false)]));
}
