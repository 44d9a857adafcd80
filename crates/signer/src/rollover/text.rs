//! The text of `.state` files in the format of BIND, which hold the state of a key.

use std::fmt::{self, Write as _};
use std::time::Duration;

use wire::rdata::view::SigAlgorithm;
use wire::text::{decimal, time, write_time};
use wire::{Name, UnixTime};

use super::state::{KeyDates, KeyDuty, KeyGoal, KeyId, KeyPurpose, KeyState, RecordState, RecordTrack};

/// A fault in the text of a `.state` file, and its line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateTextFault {
    /// Counted from 1. For a fault of the whole file that of its last line.
    pub line: usize,
    /// The kind of fault.
    pub kind: StateTextFaultKind,
}

impl fmt::Display for StateTextFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.line, self.kind)
    }
}
impl std::error::Error for StateTextFault {}

/// Kinds of [`StateTextFault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StateTextFaultKind {
    /// The line is not `field: value`.
    NoField,
    /// The field occurs twice.
    Repeated(&'static str),
    /// The field is missing.
    Missing(&'static str),
    /// The value of this field is not a number, or too great.
    BadNumber(&'static str),
    /// The value of this field is not a time `YYYYMMDDHHmmSS`.
    BadTime(&'static str),
    /// The value of this field is not `yes` or `no`.
    BadSwitch(&'static str),
    /// The value of this field is not the name of a state.
    BadState(&'static str),
    /// The value of `Duty` is not the word of a duty.
    BadDuty,
    /// Neither `KSK` nor `ZSK` is `yes`.
    NoRole,
}

impl fmt::Display for StateTextFaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoField => f.write_str("expected `field: value`"),
            Self::Repeated(name) => write!(f, "a second `{name}`"),
            Self::Missing(name) => write!(f, "there is no `{name}`"),
            Self::BadNumber(name) => write!(f, "the value of `{name}` is not a number, or too great"),
            Self::BadTime(name) => write!(f, "the value of `{name}` is not a time YYYYMMDDHHmmSS"),
            Self::BadSwitch(name) => write!(f, "the value of `{name}` is not `yes` or `no`"),
            Self::BadState(name) => {
                write!(f, "the value of `{name}` is not `hidden`, `rumoured`, `omnipresent` or `unretentive`")
            }
            Self::BadDuty => f.write_str("the value of `Duty` is not `active`, `standby` or `dropped`"),
            Self::NoRole => f.write_str("neither `KSK` nor `ZSK` is `yes`"),
        }
    }
}

/// The contents of a `.state` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StateText {
    /// The algorithm of the key.
    pub algorithm: SigAlgorithm,
    /// The state of the key.
    pub state: KeyState,
    /// Lines with fields that are unknown here, to be kept.
    pub unknown: Vec<String>,
}

/// The field that each file begins with.
const ALGORITHM: &str = "Algorithm";

/// Fields with numbers, in the order of the file.
const NUMBERS: [&str; 5] = [ALGORITHM, "Length", "Lifetime", "Predecessor", "Successor"];
/// Fields with `yes` or `no`.
const SWITCHES: [&str; 2] = ["KSK", "ZSK"];
/// Fields with times: those of [`dates`], and then those of [`tracks`].
const TIMES: [&str; 13] = [
    "Generated",
    "Published",
    "Active",
    "Retired",
    "Removed",
    "DSPublish",
    "DSRemoved",
    "PublishCDS",
    "DeleteCDS",
    "DNSKEYChange",
    "ZRRSIGChange",
    "KRRSIGChange",
    "DSChange",
];
/// Fields with states: those of [`tracks`], and the goal.
const STATES: [&str; 5] = ["DNSKEYState", "ZRRSIGState", "KRRSIGState", "DSState", "GoalState"];
/// The field with the duty of a key that is not active. BIND ignores it.
const DUTY: &str = "Duty";
/// Most lines with unknown fields that are kept, against files that are not of keys.
const MAX_UNKNOWN: usize = 64;

fn dates(dates: &mut KeyDates) -> [&mut Option<UnixTime>; 9] {
    let KeyDates { generated, published, active, retired, removed, .. } = dates;
    let KeyDates { ds_publish, ds_removed, publish_cds, delete_cds, .. } = dates;
    [generated, published, active, retired, removed, ds_publish, ds_removed, publish_cds, delete_cds]
}

fn tracks(state: &mut KeyState) -> [&mut RecordTrack; 4] {
    let KeyState { dnskey, zrrsig, krrsig, ds, .. } = state;
    [dnskey, zrrsig, krrsig, ds]
}

/// The fields of a file so far.
#[derive(Default)]
struct Fields {
    numbers: [Option<u64>; NUMBERS.len()],
    switches: [Option<bool>; SWITCHES.len()],
    times: [Option<UnixTime>; TIMES.len()],
    states: [Option<RecordState>; STATES.len()],
    duty: Option<KeyDuty>,
    unknown: Vec<String>,
}

impl StateText {
    /// Parses the text of a `.state` file.
    ///
    /// # Errors
    /// The first fault.
    pub fn parse(text: &str) -> Result<StateText, StateTextFault> {
        let mut fields = Fields::default();
        let mut last = 1;
        for (text, line) in text.lines().zip(1..) {
            if text.trim().is_empty() || text.trim_start().starts_with(';') {
                continue;
            }
            last = line;
            let at = |kind| StateTextFault { line, kind };
            let field = text.split_once(':').filter(|(name, _)| !name.trim().contains(char::is_whitespace));
            let (name, value) = field.ok_or(at(StateTextFaultKind::NoField))?;
            let value = value.split_whitespace().next().unwrap_or_default();
            if !fields.read(name.trim(), value).map_err(at)? && fields.unknown.len() < MAX_UNKNOWN {
                fields.unknown.push(text.trim_end().into());
            }
        }
        fields.finish().map_err(|kind| StateTextFault { line: last, kind })
    }

    /// Returns the text of the file of a key with this tag.
    pub fn write(&self, zone: Name<'_>, tag: u16) -> String {
        let mut out = format!("; This is the state of key {tag}, for {zone}\n");
        let mut state = self.state.clone();
        let tag_of = |key: Option<KeyId>| key.map(|key| key.tag.into());
        let lifetime = state.lifetime.unwrap_or_default().as_secs();
        let numbers: [Option<u64>; NUMBERS.len()] = [
            Some(self.algorithm.0.into()),
            Some(state.bits as u64),
            Some(lifetime),
            tag_of(state.predecessor),
            tag_of(state.successor),
        ];
        let mut line = |name: &str, value: &dyn fmt::Display| {
            // Writing to a String cannot fail.
            let _ = writeln!(out, "{name}: {value}");
        };
        for (name, number) in NUMBERS.into_iter().zip(numbers) {
            number.iter().for_each(|number| line(name, number));
        }
        for (name, is) in SWITCHES.into_iter().zip([state.role.signs_keys(), state.role.signs_zone()]) {
            line(name, &if is { "yes" } else { "no" });
        }
        let times = dates(&mut state.dates).map(|time| *time);
        let tracks = tracks(&mut state).map(|track| *track);
        let changes = tracks.map(|track| track.since);
        for (name, time) in TIMES.into_iter().zip(times.into_iter().chain(changes)) {
            if let Some(time) = time {
                let mut text = String::new();
                let _ = write_time(time.to_serial().0, &mut text);
                line(name, &text);
            }
        }
        let goal = match state.goal {
            KeyGoal::Hidden => RecordState::Hidden,
            KeyGoal::Omnipresent => RecordState::Omnipresent,
        };
        let is_kept = [true, state.role.signs_zone(), state.role.signs_keys(), state.role.signs_keys(), true];
        let states = tracks.into_iter().map(|track| track.state).chain([goal]);
        for ((name, state), is_kept) in STATES.into_iter().zip(states).zip(is_kept) {
            // BIND has no states of records that keys of this role do not have.
            if is_kept || state != RecordState::Hidden {
                line(name, &state.word());
            }
        }
        if state.duty != KeyDuty::Active {
            line(DUTY, &state.duty.word());
        }
        self.unknown.iter().for_each(|text| out.extend([text, "\n"]));
        out
    }
}

/// Finds the place of a field, and its name.
fn find(names: &[&'static str], name: &str) -> Option<(usize, &'static str)> {
    names.iter().position(|other| *other == name).map(|at| (at, names[at]))
}

/// Stores a value of a field that occurs once.
fn once<T>(slot: Option<&mut Option<T>>, value: T, name: &'static str) -> Result<bool, StateTextFaultKind> {
    match slot.and_then(|slot| slot.replace(value)) {
        None => Ok(true),
        Some(_) => Err(StateTextFaultKind::Repeated(name)),
    }
}

impl Fields {
    /// Reads one field. Returns whether it is known.
    fn read(&mut self, name: &str, value: &str) -> Result<bool, StateTextFaultKind> {
        if let Some((at, name)) = find(&NUMBERS, name) {
            let number = decimal(value.as_bytes()).ok_or(StateTextFaultKind::BadNumber(name))?;
            return once(self.numbers.get_mut(at), number, name);
        }
        if let Some((at, name)) = find(&SWITCHES, name) {
            let is = match value {
                "yes" => true,
                "no" => false,
                _ => return Err(StateTextFaultKind::BadSwitch(name)),
            };
            return once(self.switches.get_mut(at), is, name);
        }
        if let Some((at, name)) = find(&TIMES, name) {
            let seconds = (value.len() == 14).then(|| time(value.as_bytes())).flatten();
            let seconds = seconds.ok_or(StateTextFaultKind::BadTime(name))?;
            return once(self.times.get_mut(at), UnixTime::from_secs(seconds.into()), name);
        }
        if let Some((at, name)) = find(&STATES, name) {
            use RecordState::{Hidden, Omnipresent, Rumoured, Unretentive};
            let all = [Hidden, Rumoured, Omnipresent, Unretentive];
            let state = all.into_iter().find(|state| state.word() == value);
            return once(self.states.get_mut(at), state.ok_or(StateTextFaultKind::BadState(name))?, name);
        }
        if name == DUTY {
            let all = [KeyDuty::Active, KeyDuty::Standby, KeyDuty::Dropped];
            let duty = all.into_iter().find(|duty| duty.word() == value);
            return once(Some(&mut self.duty), duty.ok_or(StateTextFaultKind::BadDuty)?, DUTY);
        }
        Ok(false)
    }

    fn finish(self) -> Result<StateText, StateTextFaultKind> {
        let [algorithm, length, lifetime, predecessor, successor] = self.numbers;
        let algorithm = algorithm.ok_or(StateTextFaultKind::Missing(ALGORITHM))?;
        let algorithm = u8::try_from(algorithm).map_err(|_| StateTextFaultKind::BadNumber(ALGORITHM))?;
        let algorithm = SigAlgorithm(algorithm);
        let small = |value: Option<u64>, name: &'static str, most: u64| match value {
            Some(value) if value > most => Err(StateTextFaultKind::BadNumber(name)),
            value => Ok(value),
        };
        let link = |value, name| {
            let tag = small(value, name, u16::MAX.into())?;
            Ok(tag.map(|tag| KeyId { algorithm, tag: tag as u16 }))
        };
        let role = match self.switches.map(Option::unwrap_or_default) {
            [true, true] => KeyPurpose::Csk,
            [true, false] => KeyPurpose::Ksk,
            [false, true] => KeyPurpose::Zsk,
            [false, false] => return Err(StateTextFaultKind::NoRole),
        };
        let mut state = KeyState::new(role, small(length, "Length", u16::MAX.into())?.unwrap_or(0) as usize);
        let lifetime = small(lifetime, "Lifetime", u32::MAX.into())?;
        state.lifetime = lifetime.filter(|seconds| *seconds != 0).map(Duration::from_secs);
        state.predecessor = link(predecessor, "Predecessor")?;
        state.successor = link(successor, "Successor")?;
        let changes: Vec<Option<UnixTime>> = self.times[9..].to_vec();
        for (to, time) in dates(&mut state.dates).into_iter().zip(self.times) {
            *to = time;
        }
        for ((to, time), read) in tracks(&mut state).into_iter().zip(changes).zip(self.states) {
            *to = RecordTrack::new(read.unwrap_or_default(), time);
        }
        state.duty = self.duty.unwrap_or_default();
        // A file of `dnssec-keygen` has no states.
        state.goal = match self.states[4] {
            Some(RecordState::Hidden | RecordState::Unretentive) => KeyGoal::Hidden,
            _ => KeyGoal::Omnipresent,
        };
        Ok(StateText { algorithm, state, unknown: self.unknown })
    }
}

#[cfg(test)]
mod tests {
    use wire::NameBuf;

    use super::*;

    /// As `named` 9.20 writes it, with times shortened to the text of the time.
    const BIND: &str = "; This is the state of key 15670, for example.com.
Algorithm: 13
Length: 256
Lifetime: 2592000
Predecessor: 63467
KSK: no
ZSK: yes
Generated: 20261128162548 (Sat Nov 28 16:25:48 2026)
Published: 20261128162548 (Sat Nov 28 16:25:48 2026)
Active: 20261128192548 (Sat Nov 28 19:25:48 2026)
Retired: 20261228192548 (Mon Dec 28 19:25:48 2026)
DNSKEYChange: 20261128162548 (Sat Nov 28 16:25:48 2026)
ZRRSIGChange: 20261128192548 (Sat Nov 28 19:25:48 2026)
DNSKEYState: omnipresent
ZRRSIGState: rumoured
GoalState: omnipresent
";

    fn parsed(text: &str) -> StateText {
        StateText::parse(text).expect("a state")
    }

    #[test]
    fn a_state_of_bind_is_read_and_comes_back() {
        let text = parsed(BIND);
        let state = &text.state;
        let at = |seconds| Some(UnixTime::from_secs(seconds));
        assert_eq!((text.algorithm, state.role, state.bits), (SigAlgorithm(13), KeyPurpose::Zsk, 256));
        assert_eq!(state.lifetime, Some(Duration::from_secs(2_592_000)));
        assert_eq!(state.predecessor, Some(KeyId { algorithm: SigAlgorithm(13), tag: 63467 }));
        assert_eq!(state.dates.retired, at(1_798_485_948));
        assert_eq!(state.dnskey, RecordTrack::new(RecordState::Omnipresent, at(1_795_883_148)));
        assert_eq!(state.zrrsig, RecordTrack::new(RecordState::Rumoured, at(1_795_893_948)));
        assert_eq!((state.ds, state.goal), (RecordTrack::default(), KeyGoal::Omnipresent));
        let zone: NameBuf = "example.com.".parse().expect("a name");
        let written = text.write(zone.as_name(), 15670);
        let plain = |text: &str| -> Vec<String> {
            text.lines().map(|line| line.split(" (").next().unwrap_or_default().into()).collect()
        };
        assert_eq!(plain(&written), plain(BIND));
        assert_eq!(parsed(&written), text);
    }

    #[test]
    fn a_state_of_dnssec_keygen_is_that_of_a_new_key() {
        let text: String = BIND.lines().take(9).flat_map(|line| [line, "\n"]).collect();
        let state = parsed(&text).state;
        assert!(state.is_hidden() && state.goal == KeyGoal::Omnipresent);
    }

    #[test]
    fn a_duty_is_kept() {
        for (word, duty) in [("standby", KeyDuty::Standby), ("dropped", KeyDuty::Dropped)] {
            let text = parsed(&format!("{BIND}Duty: {word}\n"));
            assert_eq!((text.state.duty, text.unknown.len()), (duty, 0));
            assert_eq!(parsed(&text.write(Name::ROOT, 1)), text);
        }
        assert_eq!(parsed(BIND).state.duty, KeyDuty::Active);
        let fault = StateText::parse(&format!("{BIND}Duty: none\n")).expect_err("a fault");
        assert_eq!(fault, StateTextFault { line: 17, kind: StateTextFaultKind::BadDuty });
    }

    #[test]
    fn unknown_fields_are_kept() {
        let text = parsed(&(BIND.to_owned() + "\nDSPubCount: 2\nColour: blue\n"));
        assert_eq!(text.unknown, ["DSPubCount: 2", "Colour: blue"]);
        assert_eq!(parsed(&text.write(Name::ROOT, 1)), text);
    }

    #[test]
    fn faults_have_their_lines() {
        use StateTextFaultKind::*;
        let fault = |from: &str, to: &str| {
            let StateTextFault { line, kind } =
                StateText::parse(&BIND.replace(from, to)).expect_err("a fault");
            (line, kind)
        };
        assert_eq!(fault("Algorithm: 13\n", ""), (15, Missing("Algorithm")));
        assert_eq!(fault("Algorithm: 13", "Algorithm: 300"), (16, BadNumber("Algorithm")));
        assert_eq!(fault("Length: 256", "Length: many"), (3, BadNumber("Length")));
        assert_eq!(fault("Predecessor: 63467", "Predecessor: 65536"), (16, BadNumber("Predecessor")));
        assert_eq!(fault("KSK: no", "KSK: maybe"), (6, BadSwitch("KSK")));
        assert_eq!(fault("ZSK: yes", "ZSK: no"), (16, NoRole));
        assert_eq!(fault("ZSK: yes", "KSK: no"), (7, Repeated("KSK")));
        assert_eq!(fault("Active: 2026", "Active: 26"), (10, BadTime("Active")));
        assert_eq!(fault("DNSKEYState: omnipresent", "DNSKEYState: seen"), (14, BadState("DNSKEYState")));
        assert_eq!(fault("Retired:", "Retired"), (11, NoField));
        assert_eq!(StateText::parse(""), Err(StateTextFault { line: 1, kind: Missing("Algorithm") }));
    }
}
