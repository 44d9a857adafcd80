//! `nomen zone check`: checks one zone's file without a configuration.

use authority::audit::is_meant_to_be_signed;
use serde_json::json;
use transport::unix_now;
use wire::hash::HashKey;
use zone_plan::ZoneSpec;

use super::judge::{ZoneVerdict, exit_code, judge, text_of};
use super::zone_spec;
use crate::args::ZoneCheckArgs;
use config::exit_status::EXIT_USAGE;
use wire::Serial;
use zone_manager::zones::text::{Examined, ZoneFinding};

/// Runs the verb; returns the exit code.
pub fn run(args: &ZoneCheckArgs) -> u8 {
    let spec = match zone_spec(&args.origin, &args.file) {
        Ok(spec) => spec,
        Err(message) => {
            eprintln!("nomen: {message}");
            return EXIT_USAGE;
        }
    };
    let audit_at = args.dnssec.then(|| args.at.map_or_else(|| unix_now().to_serial(), Serial));
    let examined = judge(&spec, &HashKey::random(), args.errors, audit_at, args.zonemd);
    if args.json {
        say!("{:#}", json_of(&spec, &examined));
    } else {
        eprint!("{}", text_of(&spec, &examined));
        report(&spec, &examined);
        if args.dnssec && examined.zone.as_ref().is_some_and(|zone| !is_meant_to_be_signed(zone)) {
            say!("zone {}: not signed, so there is no DNSSEC to check", spec.name());
        }
    }
    exit_code(&examined, args.fail_on)
}

/// Prints the verdict on the zone, on one line.
fn report(spec: &ZoneSpec, examined: &Examined) {
    let name = spec.name();
    let warnings = format!("{} warnings", examined.warnings());
    if let (Some(zone), 0) = (&examined.zone, examined.errors()) {
        say!("zone {name}: good, serial {}, {} records, {warnings}", zone.serial(), zone.record_count());
        return;
    }
    let verdict = match ZoneVerdict::on(examined) {
        ZoneVerdict::Refused => "bad, a server refuses it",
        _ => "served all the same",
    };
    let hidden = match examined.hidden {
        0 => String::new(),
        more => format!(", {more} more of either"),
    };
    eprintln!("zone {name}: {verdict}: {} errors, {warnings}{hidden}", examined.errors());
}

fn json_of(spec: &ZoneSpec, examined: &Examined) -> serde_json::Value {
    json!({
        "zone": spec.name().to_string(),
        "good": examined.errors() == 0,
        "refused": examined.zone.is_none(),
        "serial": examined.zone.as_ref().map(|z| z.serial().0),
        "records": examined.zone.as_ref().map(|z| z.record_count()),
        "signed": examined.zone.as_ref().map(|z| z.is_signed()),
        "errors": examined.errors(),
        "warnings": examined.warnings(),
        "findings": examined.findings.iter().map(ZoneFinding::json).collect::<Vec<_>>(),
    })
}
