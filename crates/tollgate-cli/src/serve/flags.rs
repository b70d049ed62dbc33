//! The flags: those of the settings, and those that say where settings are.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches, value_parser};
use std::path::PathBuf;

use super::Serve;
use super::config::{Given, SETTINGS};

const ABOUT: &str = "Answer programs and proxies over HTTP, Envoy's gRPC and the Redis protocol";

const AFTER: &str = "\
Every setting is also a variable, TOLLGATE_HTTP for --http, and a key of [server] in the file, see
docs/server.md. A flag wins over a variable, a variable over the file.

Examples:
  tollgate serve
  tollgate serve --config tollgate.toml
  tollgate serve --policy limits.toml --http 0.0.0.0:8080 --trusted-proxy 10.0.0.0/8
  tollgate serve --envoy-config ratelimit/config --grpc 0.0.0.0:8081
  tollgate serve --config tollgate.toml --print-config

The policy file is watched: what it holds is in force as soon as it is written, unless it is wrong.
SIGHUP has the policy, certificates and tokens read again at once. SIGINT and SIGTERM stop it in order; the
second stops it at once.

Exit codes: 0 stopped in order, 1 it cannot listen or write its snapshot, 2 wrong settings or a wrong policy";

impl Args for Serve {
    fn augment_args(command: Command) -> Command {
        let config = Arg::new("config")
            .long("config")
            .value_name("FILE")
            .value_parser(value_parser!(PathBuf))
            .help("A file with the settings in [server], and perhaps the policy");
        let print = Arg::new("print_config")
            .long("print-config")
            .action(ArgAction::SetTrue)
            .help("Print what is in force and where each value is from, and do not serve");
        let json = Arg::new("json")
            .long("json")
            .action(ArgAction::SetTrue)
            .requires("print_config")
            .help("Print it as JSON");
        let command = command.about(ABOUT).after_help(AFTER).args([config, print, json]);
        command.args(SETTINGS.iter().map(|setting| setting.argument()))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Serve::augment_args(command)
    }
}

impl FromArgMatches for Serve {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Serve, Error> {
        let given = SETTINGS.iter().filter_map(|setting| {
            let texts = matches.get_many::<String>(setting.id())?;
            Some(Given::by_flag(setting, texts.cloned()))
        });
        Ok(Serve {
            config: matches.get_one("config").cloned(),
            print_config: matches.get_flag("print_config"),
            json: matches.get_flag("json"),
            given: given.collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Serve::from_arg_matches(matches)?;
        Ok(())
    }
}
