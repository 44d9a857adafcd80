//! Keys of `[server]` about the sandbox, for `confinement` of `server`.

use std::path::PathBuf;

use toml::Spanned;
use toml::de::DeValue;

use super::table::keys;
use super::table::read::{At, Reader};
use super::table::value::{Value, quote};

keys! {
    /// The sandbox.
    pub struct Confinement {
        /// Give up, once the sockets are open and the configuration is read, all that serving does not need:
        /// system calls, files other than those that the configuration names, capabilities. Parts that the
        /// kernel lacks are named in a warning; with "required", they end the start.
        restart "sandbox" mode: SandboxMode = SandboxMode::On, example "required";
        /// Further folders that may be read, with all that they contain, such as one of zone files that a
        /// reload will add, or that `$INCLUDE` of zone files names.
        restart "sandbox-readable" readable: Option<Vec<At<PathBuf>>> = None, example ["/srv/zones"];
        /// Further folders that may be written, such as one for copies by `nomen ctl zone write --to`.
        restart "sandbox-writable" writable: Option<Vec<At<PathBuf>>> = None, example ["/srv/copies"];
    }
}

/// Whether the process enters the sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SandboxMode {
    /// It does not.
    Off,
    /// It does, as far as the kernel can.
    On,
    /// It does, or does not start.
    Required,
}

/// The word for [`SandboxMode::Required`].
const REQUIRED: &str = "required";

impl Value for SandboxMode {
    fn kind() -> String {
        format!("true, false or \"{REQUIRED}\"")
    }
    fn read(node: &Spanned<DeValue<'_>>, reader: &mut Reader<'_>) -> Option<Self> {
        match node.get_ref() {
            DeValue::Boolean(true) => Some(Self::On),
            DeValue::Boolean(false) => Some(Self::Off),
            DeValue::String(word) if word == REQUIRED => Some(Self::Required),
            DeValue::String(word) => {
                reader.bad_value(node, format!("\"{word}\" is not one of: {}", Self::kind()));
                None
            }
            _ => {
                reader.wrong_type(node, &Self::kind());
                None
            }
        }
    }
    fn render(&self) -> Option<String> {
        Some(match self {
            Self::Off => "false".into(),
            Self::On => "true".into(),
            Self::Required => quote(REQUIRED),
        })
    }
}
