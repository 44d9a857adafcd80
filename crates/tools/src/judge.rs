//! All checks of `nomen zone check` beyond single records: the zone as a whole, and with `--dnssec` its
//! signatures and proofs. `zone_manager::zones::places` locates each finding.

use authority::audit::audit;
use transport::unix_now;
use wire::hash::HashKey;
use wire::{Serial, Type, UnixTime};
use zone::Zone;
use zone::check;
use zone::scan::RemarkAt;
use zone::zonemd::{self, ZonemdFault};
use zone_plan::ZoneSpec;

use super::audited::AuditSum;
use crate::args::FailOn;
use config::exit_status::{EXIT_FAULTS, EXIT_OK, EXIT_OUTSIDE};
use config::peers::{ZonemdPolicy, too_many_iterations};
use wording::moment;
use zone_manager::zones::examiner::SignatureEnds;
use zone_manager::zones::places::{self, Subject, Unplaced};
use zone_manager::zones::text::{Examined, Meter, examine};

/// Reads a zone and runs all checks, with about `shown` findings of each kind reported at most. With
/// `audit_at`, DNSSEC is checked as of that time. With
/// `zonemd`, or if the configuration requires it, the zone must have a correct digest (RFC 8976).
pub fn judge(
    spec: &ZoneSpec,
    key: &HashKey,
    shown: usize,
    audit_at: Option<Serial>,
    zonemd: bool,
) -> Examined {
    let mut examined = examine(spec, key, shown, &Meter::default());
    let mut unplaced = Vec::new();
    if let Some(zone) = &examined.zone {
        // Errors have a limit of their own: many warnings must not hide one.
        let mut room = [shown.max(1); 2];
        let mut keep = |finding: Unplaced| match &mut room[usize::from(finding.error)] {
            0 => examined.hidden += 1,
            left => {
                *left -= 1;
                unplaced.push(finding);
            }
        };
        check::check(zone, &mut |flaw| keep(Unplaced::of(flaw)));
        let zonemd = zonemd || spec.rules.zonemd == Some(ZonemdPolicy::Require);
        if zonemd && let Err(fault @ (ZonemdFault::Absent | ZonemdFault::Unknown)) = zonemd::verify(zone) {
            let subject = Subject::Set(spec.name().to_buf(), Type::SOA, RemarkAt::Type);
            keep(Unplaced::new(true, &format_args!("a digest is required: {fault}"), subject));
        }
        if !spec.rules.any_file
            && let Some(fault) = too_many_iterations(zone, spec.rules.nsec3_max_iterations)
        {
            let subject = Subject::Set(spec.name().to_buf(), Type::NSEC3PARAM, RemarkAt::Type);
            keep(Unplaced::new(true, &format_args!("the server refuses the zone: {fault}"), subject));
        }
        if let (None, true) = (audit_at, zone.is_signed())
            && let Some((is_error, message)) = expired(zone, unix_now())
        {
            let subject = Subject::Set(spec.name().to_buf(), Type::SOA, RemarkAt::Type);
            keep(Unplaced::new(is_error, &message, subject));
        }
        if let Some(time) = audit_at {
            let mut sum = AuditSum::default();
            audit(zone, time, &mut |finding| sum.add(finding));
            sum.tell(&mut |finding, message| {
                let subject = Subject::at(zone, finding.owner, finding.rtype);
                keep(Unplaced::new(finding.kind.is_error(), &message, subject));
            });
        }
    }
    unplaced.extend(places::unplaced(&mut examined.findings));
    places::place(spec, shown, unplaced, &mut examined.findings);
    examined
}

/// Returns a report on expired signatures, and whether it is an error. Used when DNSSEC is not checked
/// otherwise.
fn expired(zone: &Zone, now: UnixTime) -> Option<(bool, String)> {
    let SignatureEnds { all, ended, last } = SignatureEnds::of(zone, now);
    match ended {
        0 => None,
        _ if ended == all => {
            let last = moment(last);
            Some((
                true,
                format!("all {all} signatures of the zone have expired, the last on {last}: sign it again"),
            ))
        }
        _ => Some((false, format!("{ended} of {all} signatures have expired: --dnssec shows which"))),
    }
}

/// The verdict on a zone, from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ZoneVerdict {
    /// There are no findings.
    Good,
    /// It is served; there are warnings.
    Warned,
    /// It is served, but fails for some clients.
    Faulty,
    /// The server refuses it: its last good version stays in service, or it is answered with SERVFAIL.
    Refused,
}

impl ZoneVerdict {
    /// Returns the verdict on the findings.
    pub fn on(examined: &Examined) -> Self {
        match (&examined.zone, examined.errors(), examined.warnings()) {
            (None, ..) => Self::Refused,
            (Some(_), 1.., _) => Self::Faulty,
            (Some(_), 0, 1..) => Self::Warned,
            (Some(_), 0, 0) => Self::Good,
        }
    }

    /// Returns the exit code of a check whose worst verdict is this one.
    pub fn exit_code(self, fail_on: FailOn) -> u8 {
        let least = match fail_on {
            FailOn::Warning => Self::Warned,
            FailOn::Error => Self::Faulty,
            FailOn::Refused => Self::Refused,
        };
        if self >= least { EXIT_FAULTS } else { EXIT_OK }
    }
}

/// Returns the exit code for one zone: by its findings, or because its file could not be opened.
pub fn exit_code(examined: &Examined, fail_on: FailOn) -> u8 {
    if examined.unread() { EXIT_OUTSIDE } else { ZoneVerdict::on(examined).exit_code(fail_on) }
}

/// Returns the findings of one zone as text, which is empty if there are none.
pub fn text_of(spec: &ZoneSpec, examined: &Examined) -> String {
    let mut out = String::new();
    for finding in &examined.findings {
        out += &finding.pretty;
        out.push('\n');
    }
    if examined.hidden > 0 {
        out += &format!("zone {}: {} more not shown (--errors)\n", spec.apex, examined.hidden);
    }
    out
}
