//! The `tollgate` binary as a user runs it.

mod admin_docs;
mod bench;
mod bench_tls;
mod bench_wrong;
mod check;
mod dashboard;
mod diff;
mod explain;
mod fuzz_test_file;
mod help;
mod on_redis;
mod policy_test;
mod readme;
mod replay;
mod schema;
mod serve;
mod serve_again;
mod serve_config;
mod serve_operated;
mod serve_tls;
mod sharing;
mod shipped;
mod simulate;
mod support;
mod top;
mod validate;
