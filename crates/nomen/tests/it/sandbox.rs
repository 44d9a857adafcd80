//! The sandbox of a server: what it takes away, tried from inside; what still works; what an operator sees.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};

use sandbox::kinds::{ThreadKind, confine};
use server::config_source::ConfigSource;
use server::serve::confinement;
use tempfile::TempDir;

use crate::attempts::{ATTEMPTS, Attempt, NEEDED, OF_FILES, OF_NETWORK, Outside};
use crate::support::{APEX, Server, eventually, free_address, nomen, run, text, written};

/// Returns a folder with a configuration and files inside and outside its sandbox.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["outside", "conf/zones", "conf/state", "readable", "writable", "log"] {
        fs::create_dir_all(folder.path().join(name)).expect("made");
    }
    for name in ["conf/state/file", "outside/file", "readable/file"] {
        fs::write(folder.path().join(name), "text").expect("written");
    }
    fs::write(folder.path().join("conf/zones/a.test.zone"), APEX).expect("written");
    let config = "[server]\nstate-dir = \"state\"\nsandbox = \"required\"\nsandbox-readable = [\"../readable\"]\n\
                  sandbox-writable = [\"../writable\"]\n[log]\ntarget = \"../log/file\"\n\
                  [[zone]]\nname = \"a.test\"\nfile = \"zones/a.test.zone\"\n";
    fs::write(folder.path().join("conf/nomen.toml"), config).expect("written");
    folder
}

/// How an attempt ends.
#[derive(Debug, PartialEq, Eq)]
enum End {
    /// It succeeds.
    Done,
    /// The system refuses it, with this error number.
    Refused(i32),
    /// The kernel ends the process.
    Killed,
}

/// Runs an attempt in a process of its own, in the sandbox of a thread of this kind, or in none.
fn attempt(list: &str, name: &str, kind: &str) -> End {
    let folder = folder();
    let program = std::env::current_exe().expect("this program");
    let output = Command::new(program)
        .args(["--exact", "sandbox::inside_an_attempt_is_made", "--ignored", "--nocapture"])
        .current_dir(folder.path().join("conf"))
        .env("NOMEN_ATTEMPT", format!("{list}/{name}/{kind}"))
        .stdin(Stdio::null())
        .output()
        .expect("it starts");
    let said = text(&output.stdout);
    let number = said.lines().find_map(|line| line.split("refused: ").nth(1)?.parse().ok());
    match (output.status.signal(), number) {
        (Some(signal), _) if signal == libc::SIGSYS => End::Killed,
        (None, Some(number)) => End::Refused(number),
        // An attempt that executes another program prints no result: that program replaces this one.
        (None, None) if output.status.success() => End::Done,
        _ => panic!("{name}: {:?}\n{said}\n{}", output.status, text(&output.stderr)),
    }
}

#[test]
#[ignore = "makes the attempt that another test names in the environment"]
fn inside_an_attempt_is_made() {
    let Ok(asked) = std::env::var("NOMEN_ATTEMPT") else { return };
    let words: Vec<&str> = asked.split('/').collect();
    let [list, .., kind] = words.as_slice() else { panic!("{asked}") };
    let name = asked.strip_prefix(list).and_then(|rest| rest.strip_suffix(kind)).expect("a name");
    let list = match *list {
        "all" => ATTEMPTS,
        "network" => OF_NETWORK,
        "files" => OF_FILES,
        _ => NEEDED,
    };
    let (.., attempt) = list.iter().find(|(n, ..)| *n == name.trim_matches('/')).expect("an attempt");
    if *kind != "none" {
        let prepared = ConfigSource::File("nomen.toml".into()).prepare(None, None).expect("a configuration");
        let notes = confinement::enter(&prepared, None).expect("a sandbox");
        assert!(notes.is_empty(), "{notes:?}");
    }
    match *kind {
        "network" => confine(ThreadKind::Network),
        "files" => confine(ThreadKind::Files),
        "compute" => confine(ThreadKind::Compute),
        _ => {}
    }
    match attempt() {
        Ok(()) => println!("\ndone"),
        Err(error) => println!("\nrefused: {}", error.raw_os_error().unwrap_or(0)),
    }
}

/// Makes every attempt of a list in the sandbox of a thread of this kind, in several processes at a time, and
/// reports those that are not refused.
fn all_are_refused(list: &str, attempts: &[Attempt], kind: &str) {
    let refusals = [libc::EPERM, libc::EACCES, libc::ENOSYS];
    let allowed: Vec<String> = attempts
        .iter()
        .filter_map(|(name, outside, _)| {
            let end = attempt(list, name, kind);
            let is_refused = match end {
                End::Killed => true,
                End::Refused(number) => refusals.contains(&number),
                End::Done => false,
            };
            // An attempt that fails outside, too, does not test the sandbox.
            let free = (*outside == Outside::Allowed).then(|| attempt(list, name, "none"));
            let is_good = is_refused && free.as_ref().is_none_or(|free| *free == End::Done);
            (!is_good).then(|| format!("{name}: {end:?}, outside the sandbox {free:?}"))
        })
        .collect();
    eprintln!("sandbox, {kind}: {} attempts, {} refused", attempts.len(), attempts.len() - allowed.len());
    assert!(allowed.is_empty(), "{allowed:#?}");
}

#[test]
fn no_attempt_succeeds_inside() {
    assert!(ATTEMPTS.len() > 50);
    all_are_refused("all", ATTEMPTS, "process");
}

#[test]
fn threads_have_less_than_the_process() {
    all_are_refused("network", OF_NETWORK, "network");
    all_are_refused("files", OF_FILES, "files");
    all_are_refused("files", OF_FILES, "compute");
    all_are_refused("network", OF_NETWORK, "compute");
}

#[test]
fn what_the_server_does_is_allowed() {
    for (name, ..) in NEEDED {
        assert_eq!(attempt("needed", name, "process"), End::Done, "{name}");
    }
}

/// Returns a field of a thread's or process's status in /proc.
fn field(status: &Path, name: &str) -> String {
    let all = fs::read_to_string(status).unwrap_or_default();
    let line = all.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_default().trim().to_owned()
}

#[test]
fn every_thread_of_a_server_is_inside() {
    let server = Server::start_with_folder(&["a.test"], "[resolver]\nvalidate = false\n");
    let threads = Path::new("/proc").join(server.id().to_string()).join("task");
    let mut seen = 0;
    for thread in fs::read_dir(threads).expect("threads").flatten() {
        let status = thread.path().join("status");
        let name = field(&status, "Name");
        if name.is_empty() {
            // It has ended in the meantime.
            continue;
        }
        let all = ["CapInh", "CapPrm", "CapEff", "CapAmb"].map(|set| field(&status, set));
        assert_eq!(all, [const { "0000000000000000" }; 4], "{name}");
        assert_eq!(
            (field(&status, "NoNewPrivs"), field(&status, "Seccomp")),
            ("1".into(), "2".into()),
            "{name}"
        );
        let by_kind = ["udp-", "tcp-", "validate", "forward"].iter().any(|kind| name.starts_with(kind));
        let least = if by_kind { 4 } else { 3 };
        // A thread that has just been started adds its own filter before it answers.
        eventually(&format!("{name} has {least} filters"), &server, || {
            let filters: u32 = field(&status, "Seccomp_filters").parse().unwrap_or(0);
            filters >= least || field(&status, "Name").is_empty()
        });
        seen += 1;
    }
    assert!(seen > 5, "{seen} threads");
    let shown = &server.ctl_json(&["status"])["sandbox"];
    assert!(shown["landlock"].as_u64().is_some_and(|version| version > 0), "{shown}");
    for (key, value) in [("seccomp", "yes"), ("capabilities", "none")] {
        assert_eq!(shown[key], value, "{shown}");
    }
    assert_eq!(
        (&shown["no_new_privileges"], &shown["memory_readable_by_others"], &shown["memory_executable"]),
        (&true.into(), &false.into(), &false.into()),
        "{shown}"
    );
}

#[test]
fn a_reload_that_names_a_folder_outside_says_that_a_restart_is_needed() {
    let server = Server::start_with_folder(&["a.test"], "");
    let elsewhere = tempfile::tempdir().expect("a folder");
    let path = elsewhere.path().join("b.test.zone");
    fs::write(&path, APEX).expect("written");
    let zone =
        format!("[[zone]]\nname = \"b.test\"\nfile = {:?}\n[template.zones]", path.display().to_string());
    server.reconfigure("[template.zones]", &zone);
    let report = server.reload_badly().to_string();
    assert!(
        report.contains("b.test.") && report.contains("outside the sandbox; after a restart it can be read"),
        "{report}"
    );
    let words =
        format!("{} is outside the sandbox, and cannot be read before a restart", elsewhere.path().display());
    server.wait_for_log(&words, 1);
    // The rest of the reload is in force.
    assert!(server.query(&["ns1.a.test", "A"]).contains("192.0.2.1"));
    let (address, folder) = (server.address, server.stop());
    let mut command = nomen(&["serve", "--config", "nomen.toml"]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let server = Server::start_by(command, address, folder);
    assert!(server.query(&["ns1.b.test", "A"]).contains("192.0.2.1"));
}

#[test]
fn files_that_a_configuration_includes_later_are_outside() {
    let server = Server::start_with_folder(&["a.test"], "");
    let elsewhere = tempfile::tempdir().expect("a folder");
    let path = elsewhere.path().join("more.toml");
    fs::write(&path, "").expect("written");
    let config = fs::read_to_string(server.path("nomen.toml")).expect("read");
    server.write("nomen.toml", &format!("include = [{:?}]\n{config}", path.display().to_string()));
    let report = server.ctl(&["reload"]);
    let said = text(&report.stdout) + &text(&report.stderr);
    assert!(said.contains("outside the sandbox"), "{said}");
}

#[test]
fn without_the_sandbox_the_server_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), APEX).expect("written");
    let server = Server::start_in(folder, "sandbox = false\n", "");
    server.wait_for_log("`sandbox` in [server] is off", 1);
    assert_eq!(server.ctl_json(&["status"])["sandbox"], "off");
    assert_eq!(field(&Path::new("/proc").join(server.id().to_string()).join("status"), "Seccomp"), "0");
}

#[test]
fn a_system_without_a_part_is_named_once_and_ends_the_start_if_it_is_required() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("example.zone"), APEX).expect("written");
    let address = free_address();
    let config = |mode: &str| {
        format!(
            "[server]\nsandbox = {mode}\n[[listen]]\naddr = [{}]\n[control]\nsocket = \"ctl.sock\"\n\
             [template.folder]\ndirectory = \".\"\n",
            written(address)
        )
    };
    fs::write(folder.path().join("nomen.toml"), config("\"required\"")).expect("written");
    let mut command = nomen(&["serve", "--config", "nomen.toml"]);
    command.current_dir(folder.path());
    let output = without_landlock(command).output().expect("it starts");
    let said = text(&output.stderr);
    assert!(
        !output.status.success() && said.contains("\"required\", but access to files is not bounded"),
        "{said}"
    );
    fs::write(folder.path().join("nomen.toml"), config("true")).expect("written");
    let log = fs::File::create(folder.path().join("log")).expect("a log");
    let mut command = without_landlock(nomen(&["serve", "--config", "nomen.toml"]));
    command.stdout(log.try_clone().expect("the log")).stderr(log);
    let server = Server::start_by(command, address, folder);
    let shown = &server.ctl_json(&["status"])["sandbox"];
    assert_eq!((&shown["landlock"], &shown["seccomp"]), (&"no".into(), &"yes".into()), "{shown}");
    assert_eq!(server.log().matches("the sandbox is incomplete").count(), 1, "{}", server.log());
}

/// Has a command run on a kernel that has no Landlock, as far as it can see.
fn without_landlock(command: Command) -> Command {
    let mut inner = Command::new(std::env::current_exe().expect("this program"));
    inner.args(["--exact", "sandbox::inside_a_program_runs_without_landlock", "--ignored", "--nocapture"]);
    let words: Vec<&str> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .filter_map(|word| word.to_str())
        .collect();
    inner.env("NOMEN_COMMAND", words.join("\n"));
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => inner.env(name, value),
            None => inner.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        inner.current_dir(folder);
    }
    inner
}

#[test]
#[ignore = "runs the command that another test names in the environment"]
fn inside_a_program_runs_without_landlock() {
    use std::os::unix::process::CommandExt;
    let Ok(command) = std::env::var("NOMEN_COMMAND") else { return };
    let calls = [libc::SYS_landlock_create_ruleset];
    let rules = calls.into_iter().map(|call| (call, Vec::new())).collect();
    let (missing, arch) = (libc::ENOSYS.cast_unsigned(), std::env::consts::ARCH.try_into().expect("known"));
    let errno = seccompiler::SeccompAction::Errno(missing);
    let filter = seccompiler::SeccompFilter::new(rules, seccompiler::SeccompAction::Allow, errno, arch);
    let program: seccompiler::BpfProgram = filter.expect("a filter").try_into().expect("a program");
    seccompiler::apply_filter(&program).expect("applied");
    let words: Vec<&str> = command.lines().collect();
    panic!("{}", Command::new(words[0]).args(&words[1..]).exec());
}

#[test]
fn wrong_words_are_faults_with_their_place() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("nomen.toml"), "[server]\nsandbox = \"strict\"\n").expect("written");
    let said = text(&run(folder.path(), &["check", "nomen.toml"]).stdout)
        + &text(&run(folder.path(), &["check", "nomen.toml"]).stderr);
    assert!(said.contains("nomen.toml:2:11") && said.contains("\"required\""), "{said}");
}
