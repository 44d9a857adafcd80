//! The secrets of server cookies: those of the configuration, or a random one that lives as long as the
//! process.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use config::Settings;
use cookies::{CookieSecret, CookieSecrets};
use query_path::EngineConfig;

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

/// The secrets of server cookies.
pub(super) struct ServerCookies {
    secrets: Arc<CookieSecrets>,
    /// Whether cookies are on.
    on: AtomicBool,
    /// Whether the secrets are those of the configuration.
    configured: AtomicBool,
}

impl ServerCookies {
    /// Returns the secrets of the configuration, or a random one.
    pub(super) fn new(settings: &Settings) -> io::Result<Self> {
        let random = random().map_err(io::Error::other)?;
        let cookies = ServerCookies {
            secrets: Arc::new(CookieSecrets::new(vec![random])),
            on: AtomicBool::new(false),
            configured: AtomicBool::new(false),
        };
        cookies.adopt(settings);
        Ok(cookies)
    }

    /// Takes the secrets of the configuration. Where it has none any more, the last ones stay until they are
    /// rotated.
    pub(super) fn adopt(&self, settings: &Settings) {
        let configured = settings.server.answers.cookie_secrets();
        self.on.store(configured.is_some(), Relaxed);
        let configured = configured.unwrap_or_default();
        self.configured.store(!configured.is_empty(), Relaxed);
        if !configured.is_empty() {
            self.secrets.set(configured);
        }
    }

    /// Returns the engine's settings with these secrets.
    pub(super) fn engine_config(&self, settings: &Settings) -> EngineConfig {
        let cookies = self.on.load(Relaxed).then(|| Arc::clone(&self.secrets));
        EngineConfig { cookies, ..settings.engine_config() }
    }

    /// Makes cookies with a new random secret.
    ///
    /// # Errors
    /// Why the secret stays.
    pub(super) fn rotate(&self) -> Result<(), CookieFault> {
        if !self.on.load(Relaxed) {
            return Err(CookieFault::Off);
        }
        if self.configured.load(Relaxed) {
            return Err(CookieFault::Configured);
        }
        self.secrets.rotate(random().map_err(CookieFault::Random)?);
        Ok(())
    }
}

fn random() -> Result<CookieSecret, getrandom::Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)?;
    Ok(CookieSecret::new(bytes))
}
