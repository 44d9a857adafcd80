//! `nomen check`: all checks of a configuration and its zones that do not require serving them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::SystemTime;

use fetch::DocumentStore;
use transport::unix_now;
use wire::hash::HashKey;
use wire::{Name, NameBuf};
use zone::Zone;
use zone_plan::{WantedZones, ZoneSpec};

use super::judge::{self, ZoneVerdict, judge, text_of};
use crate::args::CheckArgs;
use crate::check_challenges::check_challenges;
use crate::print_out;
use config::exit_status::{EXIT_FAULTS, EXIT_OK};
use config::lists::{LISTS_FOLDER, ListSource};
use config::policy_zones;
use config::reference;
use config::report::{Diagnostic, exit_code};
use config::resolver::InnerRules;
use config::{AcceptedConfig, Settings};
use zone_manager::database::connection;
use zone_manager::zones::resolve::resolve;

/// Runs `nomen check`; returns the exit code. `trial` checks what a start needs of the system.
pub fn run(args: &CheckArgs, trial: impl FnOnce(&Settings) -> Vec<Diagnostic>) -> u8 {
    if let Some(text) = reference_asked_for(args) {
        print_out(&text);
        return EXIT_OK;
    }
    let mut accepted = match config::read_files(&args.file) {
        Ok(accepted) => accepted,
        Err(rejected) => {
            eprint!("{rejected}");
            return exit_code(&rejected.faults);
        }
    };
    // Whether sockets will be passed to the server is unknown here.
    for warning in accepted.config.settings.warnings(true) {
        eprint!("{}", accepted.sources.render_as("warning", &warning));
    }
    if args.system {
        let faults = trial(&accepted.config.settings);
        if !faults.is_empty() {
            eprint!("{}", accepted.sources.render(&faults));
            return EXIT_FAULTS;
        }
    }
    let wanted = match wanted_zones(&mut accepted) {
        Ok(wanted) => wanted,
        Err(faults) => {
            eprint!("{}", accepted.sources.render(&faults));
            return exit_code(&faults);
        }
    };
    warn_of_sections(&accepted);
    wanted.refused.iter().for_each(|refused| eprintln!("error: {refused}"));
    warn(&accepted, &wanted);
    if !has_challenge_zones(&accepted, &wanted, args.no_zones) {
        return EXIT_FAULTS;
    }
    let inner_rules = accepted.config.settings.inner_rules(outside_views(&wanted));
    let bad_lists = check_lists(&accepted.config.settings);
    let refused = wanted.refused.len();
    let file = args.file.display();
    if args.no_zones {
        say!("{file}: the configuration is good ({} zones not checked)", wanted.specs.len());
        return if refused == 0 && bad_lists == 0 { EXIT_OK } else { EXIT_FAULTS };
    }
    let specs = wanted.specs.into_iter().filter(|spec| spec.text.is_read()).collect();
    let policy = accepted.config.settings.policy_zones().zones;
    let policy: Vec<NameBuf> = policy.iter().map(|zone| zone.name).collect();
    let mut checked = check_zones(specs, args, &inner_rules, &policy);
    for warning in &checked.idle_rules {
        eprint!("{}", accepted.sources.render_as("warning", warning));
    }
    if refused > 0 {
        eprintln!("{file}: {refused} files have names that are no zone names");
        checked.code = checked.code.max(EXIT_FAULTS);
    }
    if bad_lists > 0 {
        eprintln!("{file}: block lists that cannot be used: {bad_lists}");
        checked.code = checked.code.max(EXIT_FAULTS);
    }
    match checked.bad() {
        None if refused > 0 || bad_lists > 0 => {}
        None => say!("{file}: {}", checked.good()),
        Some(bad) => eprintln!("{file}: {bad}"),
    }
    checked.code
}

/// Reads the files that the configuration names, and finds its zones.
fn wanted_zones(accepted: &mut AcceptedConfig) -> Result<WantedZones, Vec<Diagnostic>> {
    loop {
        let read = accepted.config.settings.read_named_files();
        if read.is_ok() {
            warn_of_certificates(accepted);
        }
        let read = read.and_then(|()| check_database(&accepted.config.settings));
        match read.and_then(|()| resolve(&accepted.config)) {
            Ok(wanted) => return Ok(wanted),
            Err(faults) => accepted.mend(faults)?,
        }
    }
}

/// Shows sections of the database, as the state folder has them, that cannot be used with this file.
fn warn_of_sections(accepted: &AcceptedConfig) {
    if let Some(damage) = accepted.sections.damage() {
        eprint!("{}", accepted.sources.render_as("warning", damage));
    }
    for state in accepted.sections.states() {
        if let Some(fault) = state.used.fault() {
            eprintln!("warning: {} of the database: {}: {fault}", state.section.title(), state.used.word());
        }
    }
}

/// Returns the text about all keys that `--defaults` or `--print-reference` asks for.
fn reference_asked_for(args: &CheckArgs) -> Option<String> {
    if args.defaults {
        return Some(reference::defaults());
    }
    args.print_reference.then(reference::markdown)
}

/// Returns what is wrong with the connection to the database, without connecting.
fn check_database(settings: &Settings) -> Result<(), Vec<Diagnostic>> {
    let Some(section) = &settings.database else { return Ok(()) };
    connection(section, HashKey::random(), None).map(drop).map_err(|fault| vec![fault])
}

/// Returns the names of the zones outside views: rules of the resolver for others apply to some clients.
fn outside_views(wanted: &WantedZones) -> impl Iterator<Item = Name<'_>> {
    wanted.specs.iter().filter(|spec| !spec.apex.is_in_view()).map(|spec| spec.name())
}

/// Prints warnings about certificates.
fn warn_of_certificates(accepted: &AcceptedConfig) {
    for warning in accepted.config.settings.encryption_warnings(SystemTime::now()) {
        eprint!("{}", accepted.sources.render_as("warning", &warning));
    }
}

/// Shows names whose challenges no zone can have. Returns whether there is none.
fn has_challenge_zones(accepted: &AcceptedConfig, wanted: &WantedZones, are_skipped: bool) -> bool {
    let found = check_challenges(&accepted.config.settings, wanted, are_skipped);
    for warning in &found.warnings {
        eprint!("{}", accepted.sources.render_as("warning", warning));
    }
    if !found.faults.is_empty() {
        eprint!("{}", accepted.sources.render(&found.faults));
    }
    found.faults.is_empty()
}

/// Shows what is allowed and probably not intended.
fn warn(accepted: &AcceptedConfig, wanted: &WantedZones) {
    let AcceptedConfig { config, sources, .. } = accepted;
    for warning in config.settings.shadowed_rules(outside_views(wanted)) {
        eprint!("{}", sources.render_as("warning", &warning));
    }
    for (spec, doubt) in wanted.doubtful() {
        let name = spec.name();
        eprintln!("warning: zone {name} comes from the file {}, and {doubt}: is it intended?", spec.text);
    }
    let notes = config.settings.recursive().map(|recursive| recursive.anchor_notes());
    notes.iter().flatten().for_each(|note| eprintln!("warning: {note}"));
}

/// Reads every block list: its file, or the stored version of a list with a URL. Returns the number of lists
/// that cannot be used.
fn check_lists(settings: &Settings) -> usize {
    let store = settings.server.storage.folder().map(|state| DocumentStore::new(state.join(LISTS_FOLDER)));
    let mut bad = 0;
    for list in settings.lists().lists {
        let checked = match &list.source {
            ListSource::File(file) => list.check(list.file_text(file)),
            ListSource::Url(fetching) => {
                let stored = store.as_ref().map(|store| store.read(&list.name, &fetching.url, list.max_size));
                match stored {
                    None | Some(Ok(None)) => continue,
                    Some(Ok(Some(document))) => list.check(Ok(document.text)),
                    Some(Err(fault)) => Err(fault.to_string()),
                }
            }
        };
        match (checked, &list.source) {
            (Ok(report), source) => {
                list.places(&report).for_each(|fault| eprintln!("warning: {fault}"));
                let more = report.faults - report.first.len();
                if more > 0 {
                    eprintln!("warning: {source}: {more} more lines cannot be used");
                }
            }
            (Err(fault), ListSource::File(file)) => {
                bad += 1;
                eprintln!("error: list {}: {}: {fault}", list.name, file.display());
            }
            // The server fetches it then.
            (Err(fault), source) => {
                eprintln!("warning: list {}: the stored version of {source} is not used: {fault}", list.name);
            }
        }
    }
    bad
}

/// The result of checking all zones.
#[derive(Default)]
struct Checked {
    zones: usize,
    refused: usize,
    faulty: usize,
    warned: usize,
    code: u8,
    /// Rules of recursive service that never apply.
    idle_rules: Vec<Diagnostic>,
}

impl Checked {
    fn count(&mut self, verdict: ZoneVerdict, code: u8) {
        match verdict {
            ZoneVerdict::Good => {}
            ZoneVerdict::Warned => self.warned += 1,
            ZoneVerdict::Faulty => self.faulty += 1,
            ZoneVerdict::Refused => self.refused += 1,
        }
        self.code = self.code.max(code);
    }

    fn good(&self) -> String {
        let zones = match self.zones {
            // Zones from primaries are not checked here.
            0 => return "the configuration is good; it names no zone that is read from a file here".into(),
            1 => "its zone".into(),
            many => format!("{many} zones"),
        };
        let warned = match self.warned {
            0 => String::new(),
            some => format!(", {some} with warnings"),
        };
        format!("the configuration and {zones} are good{warned}")
    }

    /// Returns how many zones have faults, and of which kind; `None` if none has.
    fn bad(&self) -> Option<String> {
        let parts: Vec<String> = [
            (self.refused, "bad, a server refuses them"),
            (self.faulty, "served all the same, with errors"),
            (self.warned, "served, with warnings"),
        ]
        .iter()
        .filter(|(zones, _)| *zones > 0)
        .map(|(zones, what)| format!("{zones} {what}"))
        .collect();
        let bad = self.refused + self.faulty > 0;
        bad.then(|| format!("of {} zones: {}", self.zones, parts.join("; ")))
    }
}

/// Returns the owners of a policy zone that are no triggers, the first with their reasons; none is a fault of
/// the zone.
fn unusable_owners(zone: &Zone) -> String {
    let report = policy_zones::examined(zone);
    if report.faults == 0 {
        return String::new();
    }
    let name = zone.apex().as_name();
    let mut out =
        format!("warning: policy zone {name}: {} owners are no triggers; the first:\n", report.faults);
    report.first.iter().for_each(|skipped| out += &format!("    {}: {}\n", skipped.owner, skipped.fault));
    out
}

/// Checks zones on all CPUs and prints their faults in the order of their names. `policy` are the names of
/// response policy zones.
fn check_zones(
    mut specs: Vec<ZoneSpec>,
    args: &CheckArgs,
    rules: &InnerRules,
    policy: &[NameBuf],
) -> Checked {
    specs.sort_by(|a, b| (a.name(), a.apex.view()).cmp(&(b.name(), b.apex.view())));
    let (key, specs, next) = (HashKey::random(), &specs, &AtomicUsize::new(0));
    let workers = std::thread::available_parallelism().map_or(1, usize::from).min(specs.len().max(1));
    let (done, results) = channel();
    let mut checked = Checked { zones: specs.len(), ..Checked::default() };
    std::thread::scope(|scope| {
        for done in vec![done; workers] {
            scope.spawn(move || {
                loop {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    let Some(spec) = specs.get(at) else { return };
                    let examined =
                        judge(spec, &key, args.errors, args.dnssec.then(|| unix_now().to_serial()), false);
                    let code = judge::exit_code(&examined, args.fail_on);
                    let idle = examined.zone.as_ref().map_or_else(Vec::new, |zone| rules.idle(zone));
                    let mut text = text_of(spec, &examined);
                    if let Some(zone) =
                        examined.zone.as_ref().filter(|_| policy.iter().any(|of| of.as_name() == spec.name()))
                    {
                        text += &unusable_owners(zone);
                    }
                    // The thread that prints exists while there are zones.
                    let _ = done.send((at, text, ZoneVerdict::on(&examined), code, idle));
                }
            });
        }
        let (mut early, mut printed) = (HashMap::new(), 0);
        for (at, text, verdict, code, idle) in results {
            checked.count(verdict, code);
            early.insert(at, (text, idle));
            while let Some((text, idle)) = early.remove(&printed) {
                eprint!("{text}");
                checked.idle_rules.extend(idle);
                printed += 1;
            }
        }
    });
    checked
}
