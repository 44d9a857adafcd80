//! `nomen zone check`: one zone's file without a configuration.

use serde_json::json;
use wire::hash::HashKey;

use super::judge::{judge, now, text_of};
use super::zone_spec;
use crate::cli::{EXIT_FAULTS, EXIT_OK, ZoneCheckArgs};
use crate::zones::ZoneSpec;
use crate::zones::text::{Examined, ZoneFinding};

/// Runs the verb; returns the exit code.
pub fn run(args: &ZoneCheckArgs) -> u8 {
    let spec = match zone_spec(&args.origin, &args.file) {
        Ok(spec) => spec,
        Err(message) => {
            eprintln!("nomen: {message}");
            return EXIT_FAULTS;
        }
    };
    let audit_at = args.dnssec.then(|| args.at.unwrap_or_else(now));
    let examined = judge(&spec, &HashKey::random(), args.errors, audit_at);
    if args.json {
        println!("{:#}", json_of(&spec, &examined));
    } else {
        eprint!("{}", text_of(&spec, &examined));
        match examined.zone.as_ref().filter(|_| examined.errors() == 0) {
            Some(zone) => println!(
                "zone {}: good, serial {}, {} records, {} warnings",
                spec.name(),
                zone.serial(),
                zone.record_count(),
                examined.warnings()
            ),
            None => eprintln!(
                "zone {}: bad, {} errors, {} warnings{}",
                spec.name(),
                examined.errors(),
                examined.warnings(),
                if examined.hidden > 0 {
                    format!(", {} more of either", examined.hidden)
                } else {
                    String::new()
                }
            ),
        }
    }
    if examined.errors() > 0 { EXIT_FAULTS } else { EXIT_OK }
}

fn json_of(spec: &ZoneSpec, examined: &Examined) -> serde_json::Value {
    let finding = |f: &ZoneFinding| {
        json!({
            "severity": if f.error { "error" } else { "warning" },
            "file": &*f.file,
            "line": (f.line > 0).then_some(f.line),
            "column": (f.column > 0).then_some(f.column),
            "message": f.message,
        })
    };
    json!({
        "zone": spec.name().to_string(),
        "good": examined.errors() == 0,
        "serial": examined.zone.as_ref().map(|z| z.serial().0),
        "records": examined.zone.as_ref().map(|z| z.record_count()),
        "signed": examined.zone.as_ref().map(|z| z.is_signed()),
        "errors": examined.errors(),
        "warnings": examined.warnings(),
        "findings": examined.findings.iter().map(finding).collect::<Vec<_>>(),
    })
}
