//! The secrets of server cookies: those of the configuration, or a random one that lives as long as the
//! process.

use std::fmt;
use std::io;
use std::sync::{Arc, Mutex};

use config::Settings;
use cookies::{CookieSecret, CookieSecrets};
use query_path::EngineConfig;
use threads::sync::lock;

use super::access_rules::access_rules;

/// Why a secret is not replaced.
#[derive(Debug)]
pub enum CookieFault {
    /// Cookies are off.
    Off,
    /// The secrets are those of the configuration.
    Configured,
    /// The system gives no random numbers.
    Random(getrandom::Error),
}

impl fmt::Display for CookieFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Off => f.write_str("cookies are off: `cookies` of [server] is false"),
            Self::Configured => f.write_str(
                "the secrets are those of `cookie-secrets` of [server]: change them there, on each server that has \
                 them, and reload",
            ),
            Self::Random(error) => write!(f, "no random secret: {error}"),
        }
    }
}
impl std::error::Error for CookieFault {}

/// Whose secrets are in use.
enum InUse {
    /// Cookies are off.
    None,
    /// Those of the configuration.
    Configured(Arc<CookieSecrets>),
    /// The random ones.
    Random,
}

/// The secrets of server cookies.
pub(super) struct ServerCookies {
    random: Arc<CookieSecrets>,
    in_use: Mutex<InUse>,
}

impl ServerCookies {
    /// Returns the secrets of the configuration, or a random one.
    pub(super) fn new(settings: &Settings) -> io::Result<Self> {
        let random = Arc::new(CookieSecrets::new(vec![random().map_err(io::Error::other)?]));
        Ok(ServerCookies { random, in_use: Mutex::new(InUse::of(settings)) })
    }

    /// Takes the secrets of the configuration; without them the random ones count.
    pub(super) fn adopt(&self, settings: &Settings) {
        *lock(&self.in_use) = InUse::of(settings);
    }

    /// Returns the engine's settings with these secrets.
    pub(super) fn engine_config(&self, settings: &Settings) -> EngineConfig {
        let cookies = match &*lock(&self.in_use) {
            InUse::None => None,
            InUse::Configured(secrets) => Some(Arc::clone(secrets)),
            InUse::Random => Some(Arc::clone(&self.random)),
        };
        EngineConfig { cookies, access: access_rules(settings), ..settings.engine_config() }
    }

    /// Makes cookies with a new random secret.
    ///
    /// # Errors
    /// Why the secret stays.
    pub(super) fn rotate(&self) -> Result<(), CookieFault> {
        match &*lock(&self.in_use) {
            InUse::None => return Err(CookieFault::Off),
            InUse::Configured(_) => return Err(CookieFault::Configured),
            InUse::Random => {}
        }
        self.random.rotate(random().map_err(CookieFault::Random)?);
        Ok(())
    }
}

impl InUse {
    fn of(settings: &Settings) -> InUse {
        match settings.server.answers.cookie_secrets() {
            None => InUse::None,
            Some(secrets) if secrets.is_empty() => InUse::Random,
            Some(secrets) => InUse::Configured(Arc::new(CookieSecrets::new(secrets))),
        }
    }
}

fn random() -> Result<CookieSecret, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(CookieSecret::new(bytes))
}
