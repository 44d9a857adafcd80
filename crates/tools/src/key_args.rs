//! Arguments of `nomen zone sign`, `nomen key` and `nomen ctl key`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use wire::rdata::view::{Ds, SigAlgorithm};
use wire::text::{duration, time};
use wire::{Ttl, UnixTime};

const SIGN_HELP: &str = "\
Nothing is printed unless the signed zone has passed the checks of `nomen zone check --dnssec`.

TIME is YYYYMMDDHHmmSS, in UTC, or a time with units, such as 30d or 1h30m: before now for --inception, from now on \
for the others.

Exit status:
  0  the zone is signed
  1  the zone, a key or the settings would break validation
  2  the command line was wrong
  3  a file could not be read or written";

const GENERATE_HELP: &str = "\
Without times, the key is published and signs at once. TIME is YYYYMMDDHHmmSS, in UTC, or a time from now on with \
units, such as 30d.";

const REQUEST_HELP: &str = "\
TIME is YYYYMMDDHHmmSS, in UTC, or a time from the start of the request on with units, such as 90d. The clock of the \
machine does not matter.

Exit status:
  0  the response is complete
  1  the request or a key has a fault
  2  the command line was wrong
  3  a file could not be read or written";

/// `nomen zone sign`.
#[derive(Debug, Args)]
#[command(after_help = SIGN_HELP)]
pub struct ZoneSignArgs {
    /// Name of the zone.
    pub origin: String,
    /// Its master file. Signatures, NSEC and NSEC3 records in it are replaced.
    pub file: PathBuf,
    /// Folder with keys. Those of the zone are used as their times say.
    #[arg(short = 'K', long, value_name = "FOLDER", required_unless_present = "key")]
    pub keys: Option<PathBuf>,
    /// A key, by the name of its files; may be given several times.
    #[arg(short, long, value_name = "FILE")]
    pub key: Vec<PathBuf>,
    /// File to write instead of standard output. It is replaced once the signed zone is complete.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Start of validity of the signatures.
    #[arg(long, value_name = "TIME", default_value = "1h", value_parser = key_time)]
    pub inception: KeyTime,
    /// End of validity of the signatures.
    #[arg(long, value_name = "TIME", default_value = "30d", value_parser = key_time)]
    pub expiration: KeyTime,
    /// Let signatures expire up to this much earlier, each RRset at another time.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = span)]
    pub jitter: u32,
    /// Prove with NSEC3 instead of NSEC what does not exist.
    #[arg(long)]
    pub nsec3: bool,
    /// Leave insecure delegations out of the NSEC3 chain, for very large zones of delegations.
    #[arg(long, requires = "nsec3")]
    pub opt_out: bool,
    /// Salt of NSEC3 in hexadecimal. Default: none, as RFC 9276 recommends.
    #[arg(long, value_name = "HEX", requires = "nsec3")]
    pub salt: Option<String>,
    /// Additional hash iterations of NSEC3. Any number but 0 needs --allow-iterations (RFC 9276).
    #[arg(long, value_name = "N", default_value_t = 0, requires = "nsec3")]
    pub iterations: u16,
    /// Allow up to 50 iterations, with which validators still treat the zone as secure.
    #[arg(long, requires = "iterations")]
    pub allow_iterations: bool,
    /// Serial of the SOA.
    #[arg(long, value_name = "RULE", value_enum, default_value_t = SerialRule::Keep)]
    pub serial: SerialRule,
    /// TTL of DNSKEY, CDS and CDNSKEY. Default: that of the zone's DNSKEY, else of a key's file, else of the
    /// SOA.
    #[arg(long, value_name = "TTL", value_parser = ttl)]
    pub dnskey_ttl: Option<Ttl>,
    /// Add CDS and CDNSKEY records for the key-signing keys, with which a parent updates its DS.
    #[arg(long)]
    pub cds: bool,
    /// Add a digest of the zone (ZONEMD, SHA-384). One that the zone has is always renewed.
    #[arg(long)]
    pub zonemd: bool,
    /// Do not verify the signed zone, which takes more CPU time than to sign it: nothing then checks that the
    /// result validates.
    #[arg(long)]
    pub no_verify: bool,
    /// Time of signing, in seconds since 1970, for repeatable results. Default: now.
    #[arg(long, value_name = "SECONDS")]
    pub at: Option<u32>,
}

/// How the serial of a signed zone is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SerialRule {
    /// That of the file.
    Keep,
    /// One more.
    Increment,
    /// Seconds since 1970; one more if that is not greater.
    Unixtime,
}

/// `nomen key`.
#[derive(Debug, Subcommand)]
pub enum KeyVerb {
    /// Generate a key of a zone.
    #[command(after_help = GENERATE_HELP)]
    Generate(KeyGenerateArgs),
    /// List the keys in a folder.
    List(KeyListArgs),
    /// Print the DS record of a key, for the parent zone.
    ExportDs(KeyDsArgs),
    /// Take over the private key of another program.
    ///
    /// FILE is a private key in the format of BIND (PowerDNS: `pdnsutil export-zone-key`) or PKCS#8 in PEM
    /// (Knot: a file of its folder of keys).
    Import(KeyImportArgs),
    /// Sign a key signing request (KSR) with the key-signing keys in a folder, and print the signed key
    /// response (SKR).
    ///
    /// For zones with `offline-ksk`: `nomen ctl key request` prints the request on the server, which takes
    /// the response with `nomen ctl key import-response`. Both have the format of dnssec-ksr of BIND.
    #[command(after_help = REQUEST_HELP)]
    SignRequest(KeySignRequestArgs),
}

/// `nomen key sign-request`.
#[derive(Debug, Args)]
pub struct KeySignRequestArgs {
    /// Name of the zone.
    pub zone: String,
    /// The request; `-` is standard input.
    pub file: PathBuf,
    /// Folder with the key-signing keys. They are published and sign as their times say.
    #[arg(short = 'K', long, value_name = "FOLDER")]
    pub keys: PathBuf,
    /// File to write instead of standard output. It is replaced once the response is complete.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// End of the last slot. Default: that of the request, which requests of BIND do not have.
    #[arg(long, value_name = "TIME", value_parser = key_time)]
    pub until: Option<KeyTime>,
    /// How long signatures are valid.
    #[arg(long, value_name = "DURATION", default_value = "14d", value_parser = span)]
    pub validity: u32,
    /// How long before its expiration a signature is replaced.
    #[arg(long, value_name = "DURATION", default_value = "5d", value_parser = span)]
    pub refresh: u32,
    /// How long before its slot a signature begins to be valid.
    #[arg(long, value_name = "DURATION", default_value = "1h", value_parser = span)]
    pub inception_offset: u32,
    /// Digest of the CDS records; may be given twice.
    #[arg(long, value_name = "DIGEST", value_enum, default_values = ["sha256"])]
    pub digest: Vec<DsDigest>,
    /// Add no CDS and CDNSKEY records.
    #[arg(long)]
    pub no_cds: bool,
}

/// `nomen key generate`.
#[derive(Debug, Args)]
pub struct KeyGenerateArgs {
    /// Name of the zone.
    pub zone: String,
    /// Algorithm.
    #[arg(
        short,
        long,
        value_name = "NAME",
        value_enum,
        ignore_case = true,
        default_value = "ecdsap256sha256"
    )]
    pub algorithm: KeyAlgorithmArg,
    /// What the key signs.
    #[arg(long, value_name = "ROLE", value_enum, default_value_t = KeyRoleArg::Csk)]
    pub role: KeyRoleArg,
    /// Size of an RSA key: 2048, 3072 or 4096 bits.
    #[arg(long, value_name = "N", default_value_t = 2048)]
    pub bits: usize,
    /// Folder to write the files to.
    #[arg(short = 'K', long, value_name = "FOLDER", default_value = ".")]
    pub folder: PathBuf,
    /// TTL of the DNSKEY record.
    #[arg(long, value_name = "TTL", value_parser = ttl)]
    pub ttl: Option<Ttl>,
    /// When the DNSKEY record is added to the zone.
    #[arg(long, value_name = "TIME", value_parser = key_time)]
    pub publish: Option<KeyTime>,
    /// When the key begins to sign.
    #[arg(long, value_name = "TIME", value_parser = key_time)]
    pub activate: Option<KeyTime>,
    /// When the key no longer signs.
    #[arg(long, value_name = "TIME", value_parser = key_time)]
    pub inactive: Option<KeyTime>,
    /// When the DNSKEY record is removed from the zone.
    #[arg(long, value_name = "TIME", value_parser = key_time)]
    pub delete: Option<KeyTime>,
    /// Print the key as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `nomen key list`.
#[derive(Debug, Args)]
pub struct KeyListArgs {
    /// Folder of keys.
    #[arg(default_value = ".")]
    pub folder: PathBuf,
    /// Print the keys as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `nomen key export-ds`.
#[derive(Debug, Args)]
pub struct KeyDsArgs {
    /// The key, by the name of its files. The private key is not read.
    pub key: PathBuf,
    /// Digest of the DS record; may be given twice.
    #[arg(long, value_name = "DIGEST", value_enum, default_values = ["sha256"])]
    pub digest: Vec<DsDigest>,
    /// Print the records as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `nomen key import`.
#[derive(Debug, Args)]
pub struct KeyImportArgs {
    /// Name of the zone.
    pub zone: String,
    /// The private key.
    pub file: PathBuf,
    /// What the key signs.
    #[arg(long, value_name = "ROLE", value_enum)]
    pub role: KeyRoleArg,
    /// Algorithm of an RSA key in PEM, which does not name its hash: rsasha256 or rsasha512.
    #[arg(short, long, value_name = "NAME", value_enum, ignore_case = true, default_value = "rsasha256")]
    pub algorithm: KeyAlgorithmArg,
    /// Folder to write the files to.
    #[arg(short = 'K', long, value_name = "FOLDER", default_value = ".")]
    pub folder: PathBuf,
    /// Print the key as JSON.
    #[arg(long)]
    pub json: bool,
}

/// Commands on keys of zones that the server signs.
#[derive(Debug, Subcommand)]
pub enum CtlKey {
    /// The keys of a zone: what caches have of their records (RFC 7583), and what each key waits for.
    List {
        /// Name of the zone.
        zone: String,
    },
    /// Predict the events of the keys, if the parent stays as it is.
    Timeline {
        /// Name of the zone.
        zone: String,
    },
    /// Replace a key by a new one.
    ///
    /// Refused while records of the key, or of the one before it, are not in all caches, or still in some.
    /// The error has the earliest time.
    Roll {
        /// Name of the zone.
        zone: String,
        /// The key, by its tag.
        #[arg(long, value_name = "TAG", required_unless_present = "role")]
        key: Option<String>,
        /// The key of this role.
        #[arg(long, value_name = "ROLE", value_enum, conflicts_with = "key")]
        role: Option<KeyRoleArg>,
        /// The standby key of the policy takes over at once, and a new standby key is made. Refused while
        /// caches may lack its records.
        #[arg(long)]
        emergency: bool,
    },
    /// Remove a key as soon as no cache needs it. Refused unless another key can take over.
    Retire {
        /// Name of the zone.
        zone: String,
        /// The key, by its tag.
        #[arg(long, value_name = "TAG")]
        key: String,
    },
    /// State that all servers of the parent have the DS record of a key, if nomen cannot ask them.
    DsPublished {
        /// Name of the zone.
        zone: String,
        /// The key, by its tag.
        #[arg(long, value_name = "TAG")]
        key: String,
    },
    /// State that no server of the parent has the DS record of a key, if nomen cannot ask them.
    DsWithdrawn {
        /// Name of the zone.
        zone: String,
        /// The key, by its tag.
        #[arg(long, value_name = "TAG")]
        key: String,
    },
    /// Print the DS records that the parent is to have now.
    ExportDs {
        /// Name of the zone.
        zone: String,
        /// Digest of the DS records; may be given twice.
        #[arg(long, value_name = "DIGEST", value_enum, default_values = ["sha256"])]
        digest: Vec<DsDigest>,
    },
    /// Generate the zone-signing keys of a zone with `offline-ksk` that are missing from now until a time.
    Pregenerate {
        /// Name of the zone.
        zone: String,
        /// Until when: YYYYMMDDHHmmSS, in UTC, or a time from now on with units, such as 365d.
        #[arg(long, visible_alias = "for", value_name = "TIME", value_parser = key_time)]
        until: KeyTime,
    },
    /// Print the key signing request (KSR) of a zone with `offline-ksk`, for `nomen key sign-request`.
    Request {
        /// Name of the zone.
        zone: String,
        /// When the first slot begins: YYYYMMDDHHmmSS, in UTC, or a time from now on with units. Default:
        /// now.
        #[arg(long, value_name = "TIME", value_parser = key_time)]
        from: Option<KeyTime>,
        /// When the last slot ends, in the same forms. Default: when the last zone-signing key ends.
        #[arg(long, visible_alias = "for", value_name = "TIME", value_parser = key_time)]
        until: Option<KeyTime>,
    },
    /// Take the signed key response (SKR) of a zone with `offline-ksk`.
    ///
    /// It is checked as a whole: a response with which validators could reject the zone is refused, with the
    /// line of the fault.
    ImportResponse {
        /// Name of the zone.
        zone: String,
        /// The response; `-` is standard input.
        file: PathBuf,
    },
}

/// An algorithm that nomen signs with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeyAlgorithmArg {
    /// RSA with SHA-256, 8.
    #[value(alias = "8")]
    Rsasha256,
    /// RSA with SHA-512, 10.
    #[value(alias = "10")]
    Rsasha512,
    /// ECDSA on the curve P-256, 13: small signatures, which all validators know.
    #[value(alias = "13")]
    Ecdsap256sha256,
    /// ECDSA on the curve P-384, 14.
    #[value(alias = "14")]
    Ecdsap384sha384,
    /// Ed25519, 15.
    #[value(alias = "15")]
    Ed25519,
}

impl From<KeyAlgorithmArg> for SigAlgorithm {
    fn from(algorithm: KeyAlgorithmArg) -> Self {
        match algorithm {
            KeyAlgorithmArg::Rsasha256 => SigAlgorithm::RSASHA256,
            KeyAlgorithmArg::Rsasha512 => SigAlgorithm::RSASHA512,
            KeyAlgorithmArg::Ecdsap256sha256 => SigAlgorithm::ECDSAP256SHA256,
            KeyAlgorithmArg::Ecdsap384sha384 => SigAlgorithm::ECDSAP384SHA384,
            KeyAlgorithmArg::Ed25519 => SigAlgorithm::ED25519,
        }
    }
}

/// What a key signs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum KeyRoleArg {
    /// Everything, if the zone has no zone-signing key of its algorithm; else as ksk.
    Csk,
    /// The DNSKEY RRset. The DS of the parent refers to it.
    Ksk,
    /// Everything but the DNSKEY RRset.
    Zsk,
}

/// The digest of a DS record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DsDigest {
    /// SHA-256, which every validator knows.
    Sha256,
    /// SHA-384.
    Sha384,
}

impl DsDigest {
    /// Returns its number.
    pub fn code(self) -> u8 {
        match self {
            Self::Sha256 => Ds::SHA256,
            Self::Sha384 => Ds::SHA384,
        }
    }
}

/// A time of a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyTime {
    /// This time.
    At(UnixTime),
    /// So long before or after now.
    Span(Duration),
}

impl KeyTime {
    /// Returns the time, if it is counted from `now` on.
    pub fn after(self, now: UnixTime) -> UnixTime {
        match self {
            Self::At(time) => time,
            Self::Span(span) => now.saturating_add(span),
        }
    }

    /// Returns the time, if it is counted back from `now`.
    pub fn before(self, now: UnixTime) -> UnixTime {
        match self {
            Self::At(time) => time,
            Self::Span(span) => now.saturating_sub(span),
        }
    }
}

/// Parses a time.
///
/// # Errors
/// What is expected.
fn key_time(text: &str) -> Result<KeyTime, String> {
    if text.len() == 14
        && let Some(seconds) = time(text.as_bytes())
    {
        return Ok(KeyTime::At(UnixTime::from_secs(seconds.into())));
    }
    match span(text) {
        Ok(seconds) if !text.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok(KeyTime::Span(Duration::from_secs(seconds.into())))
        }
        _ => Err("expected YYYYMMDDHHmmSS or a time with units, such as 30d or 1h30m".into()),
    }
}

fn span(text: &str) -> Result<u32, String> {
    duration(text.as_bytes()).ok_or_else(|| "expected a time with units, such as 30d or 1h30m".into())
}

fn ttl(text: &str) -> Result<Ttl, String> {
    match duration(text.as_bytes()) {
        Some(seconds) if seconds <= Ttl::MAX.as_secs() => Ok(Ttl::from_secs(seconds)),
        _ => Err("expected a TTL of up to 2147483647 seconds, such as 3600 or 1h".into()),
    }
}

#[cfg(test)]
mod tests {
    use config::dnssec_policy::PolicyAlgorithm;
    use config::table::value::Word;

    use super::*;

    #[test]
    fn algorithms_have_the_words_of_the_configuration() {
        let ours = KeyAlgorithmArg::value_variants().iter();
        let ours: Vec<String> =
            ours.filter_map(|algorithm| Some(algorithm.to_possible_value()?.get_name().to_owned())).collect();
        let theirs: Vec<&str> = PolicyAlgorithm::WORDS.iter().map(|(word, _)| *word).collect();
        assert_eq!(ours, theirs);
    }

    #[test]
    fn times_are_dates_or_have_units() {
        let at = |seconds| Ok(KeyTime::At(UnixTime::from_secs(seconds)));
        let span = |seconds| Ok(KeyTime::Span(Duration::from_secs(seconds)));
        assert_eq!(key_time("20260101000000"), at(1_767_225_600));
        assert_eq!(key_time("1h30m"), span(5400));
        assert_eq!(key_time("0s"), span(0));
        for bad in ["", "3600", "20261301000000", "tomorrow", "-1h", "1767225600"] {
            assert!(key_time(bad).is_err(), "{bad}");
        }
        let now = UnixTime::from_secs(10_000);
        let hour = KeyTime::Span(Duration::from_secs(3600));
        assert_eq!((hour.after(now).as_secs(), hour.before(now).as_secs()), (13_600, 6_400));
    }
}
