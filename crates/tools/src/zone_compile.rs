//! `nomen zone compile`: makes the images of configured zones, with or without a running server.

use std::collections::HashSet;
use std::time::Instant;

use wire::{ViewName, ZoneName};
use zone_plan::ZoneSpec;

use crate::args::ZoneCompileArgs;
use config;
use config::Storage;
use config::exit_status::{EXIT_FAULTS, EXIT_OK, EXIT_OUTSIDE};
use config::report::exit_code;
use config::zone_name::zone_name;
use wording::did_you_mean;
use zone_manager::zones::images::{self, StateFolder};
use zone_manager::zones::resolve::resolve;
use zone_manager::zones::text::{self, Meter};

/// Runs the verb; returns the exit code.
pub fn run(args: &ZoneCompileArgs) -> u8 {
    match prepare(args) {
        Ok(task) => compile(&task),
        Err((message, code)) => {
            eprintln!("{}", message.trim_end());
            code
        }
    }
}

/// What is to be compiled.
struct CompileTask {
    state: StateFolder,
    specs: Vec<ZoneSpec>,
    /// Least number of records of a zone that gets an image.
    least: u64,
}

fn prepare(args: &ZoneCompileArgs) -> Result<CompileTask, (String, u8)> {
    let faults = |message: String| (message, EXIT_FAULTS);
    let accepted = config::read_files(&args.config)
        .map_err(|rejected| (rejected.to_string(), exit_code(&rejected.faults)))?;
    let wanted =
        resolve(&accepted.config).map_err(|found| (accepted.sources.render(&found), exit_code(&found)))?;
    let specs: Vec<ZoneSpec> = wanted.specs.into_iter().filter(|spec| spec.text.is_read()).collect();
    let storage = &accepted.config.settings.server.storage;
    let (specs, least) = match args.names.is_empty() {
        true => (specs, storage.image_min_records.0),
        false => (chosen(specs, &args.names).map_err(faults)?, 0),
    };
    Ok(CompileTask { state: open(storage)?, specs, least })
}

fn open(storage: &Storage) -> Result<StateFolder, (String, u8)> {
    let Some(folder) = storage.folder() else {
        let message = "nomen: there is no place for images: set `state-dir` in [server]";
        return Err((message.into(), EXIT_FAULTS));
    };
    let opened = images::make_folder(&folder, None).and_then(|()| StateFolder::open(&folder));
    opened.map_err(|fault| (format!("nomen: {fault}"), EXIT_OUTSIDE))
}

/// Returns the zones with these names.
fn chosen(specs: Vec<ZoneSpec>, names: &[String]) -> Result<Vec<ZoneSpec>, String> {
    let mut wanted: HashSet<ZoneName> = HashSet::new();
    for name in names {
        let fault = |fault: &dyn std::fmt::Display| format!("nomen: {fault}");
        let (name, view) = ViewName::split(name).map_err(|bad| fault(&bad))?;
        let name = zone_name(name).map_err(|bad| fault(&bad))?;
        let name = ZoneName::in_view(name.as_name().to_lower().as_lower(), view.as_ref());
        if !specs.iter().any(|spec| spec.apex == name) {
            let known: Vec<String> = specs.iter().map(|spec| spec.apex.to_string()).collect();
            let near = did_you_mean(&name.to_string(), known.iter().map(String::as_str));
            let near = near.map_or_else(String::new, |near| format!("; did you mean \"{near}\"?"));
            return Err(format!("nomen: the configuration has no zone {name}{near}"));
        }
        wanted.insert(name);
    }
    Ok(specs.into_iter().filter(|spec| wanted.contains(&spec.apex)).collect())
}

/// Compiles zones one after the other; several threads read each of them.
fn compile(CompileTask { state, specs, least }: &CompileTask) -> u8 {
    let (mut code, mut small) = (EXIT_OK, 0);
    for spec in specs {
        let (name, begun) = (&spec.apex, Instant::now());
        let examined = text::examine(spec, &state.key, text::MAX_LOGGED_FAULTS, &Meter::default());
        let unread = examined.unread();
        let built = match text::built(examined) {
            Ok(built) => built,
            Err(fault) => {
                eprintln!("zone {name}: bad, no image made\n{fault}");
                code = code.max(if unread { EXIT_OUTSIDE } else { EXIT_FAULTS });
                continue;
            }
        };
        built.warnings.iter().for_each(|warning| eprintln!("{warning}"));
        if built.zone.record_count() < *least {
            small += 1;
            continue;
        }
        let Some(provenance) = built.provenance else {
            eprintln!("zone {name}: no image made, it is not read from ordinary files");
            code = code.max(EXIT_FAULTS);
            continue;
        };
        match state.write(spec, &built.zone, &provenance) {
            Ok((path, bytes)) => say!(
                "{}: zone {name}, {} records, {bytes} bytes, {:.2} s",
                path.display(),
                built.zone.record_count(),
                begun.elapsed().as_secs_f64()
            ),
            Err(fault) => {
                eprintln!("zone {name}: {fault}");
                code = code.max(EXIT_OUTSIDE);
            }
        }
    }
    if small > 0 {
        say!("{small} zones have fewer than {least} records (`image-min-records`) and get no image");
    }
    code
}
