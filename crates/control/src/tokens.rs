//! Tokens of the HTTP API: which secret is which token, when each was used last, and their list for
//! operators.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::Mutex;

use arc_swap::ArcSwap;
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Value, json};
use transport::unix_now;
use wire::UnixTime;

use config::api::{ApiGrant, ApiRight, ApiTokenBlock, TokenHash};
use config::table::read::At;
use config::table::value::Word;
use config::{Adopt, Settings};
use threads::sync::lock;

/// The tokens in force.
#[derive(Default)]
pub struct TokenTable(ArcSwap<Vec<KnownToken>>);

/// A token in force.
struct KnownToken {
    name: Arc<str>,
    hash: TokenHash,
    /// The time from which on it is refused, as it is written.
    expires: Option<(UnixTime, String)>,
    grants: Arc<[ApiGrant]>,
    used: Arc<Mutex<TokenUse>>,
}

/// When and from where a token was used.
#[derive(Debug, Clone, Copy, Default)]
struct TokenUse {
    requests: u64,
    last: Option<(UnixTime, IpAddr)>,
}

/// A token whose secret a request has.
#[derive(Debug, Clone)]
pub struct FoundToken {
    /// Its name.
    pub name: Arc<str>,
    /// Its rights.
    pub grants: Arc<[ApiGrant]>,
    /// Whether it has expired, and is refused.
    pub is_expired: bool,
}

impl TokenTable {
    /// Returns the table of the tokens of a configuration.
    pub fn new(settings: &Settings) -> Arc<TokenTable> {
        let table = Arc::new(TokenTable::default());
        table.adopt(settings);
        table
    }

    /// Returns the token whose secret this is. Takes the same time whichever token it is, and if it is none.
    pub fn find(&self, secret: &[u8], now: UnixTime) -> Option<FoundToken> {
        let hash = digest(&SHA256, secret);
        let tokens = self.0.load();
        let mut found = None;
        for token in tokens.iter() {
            if verify_slices_are_equal(&token.hash.0, hash.as_ref()).is_ok() {
                found = Some(token);
            }
        }
        let token = found?;
        let is_expired = token.expires.as_ref().is_some_and(|(at, _)| *at <= now);
        Some(FoundToken { name: Arc::clone(&token.name), grants: Arc::clone(&token.grants), is_expired })
    }

    /// Returns the rights of a token by its name; `None` if there is none, or it has expired.
    pub fn grants_of(&self, name: &str, now: UnixTime) -> Option<Arc<[ApiGrant]>> {
        let tokens = self.0.load();
        let token = tokens.iter().find(|token| &*token.name == name)?;
        let is_valid = token.expires.as_ref().is_none_or(|(at, _)| *at > now);
        is_valid.then(|| Arc::clone(&token.grants))
    }

    /// Notes that a client has used a token.
    pub fn used(&self, name: &str, client: IpAddr) {
        if let Some(token) = self.0.load().iter().find(|token| &*token.name == name) {
            let mut used = lock(&token.used);
            used.requests += 1;
            used.last = Some((unix_now(), client));
        }
    }

    /// Returns all tokens as JSON, by name, without their hashes.
    pub fn list(&self) -> Value {
        let now = unix_now();
        let mut rows: Vec<(Arc<str>, Value)> = Vec::new();
        for token in self.0.load().iter() {
            let used = *lock(&token.used);
            let row = json!({
                "name": &*token.name,
                "rights": token.grants.iter().map(shown_grant).collect::<Vec<_>>(),
                "expires": token.expires.as_ref().map(|(_, text)| text),
                "expired": token.expires.as_ref().is_some_and(|(at, _)| *at <= now),
                "requests": used.requests,
                "last_used": used.last.map(|(at, _)| at.as_secs()),
                "last_client": used.last.map(|(_, client)| client.to_string()),
            });
            rows.push((Arc::clone(&token.name), row));
        }
        rows.sort_by(|(a, _), (b, _)| a.cmp(b));
        Value::Array(rows.into_iter().map(|(_, row)| row).collect())
    }
}

/// Returns a right as JSON, with the members that are set.
pub fn shown_grant(grant: &ApiGrant) -> Value {
    let word = ApiRight::WORDS.iter().find(|(_, right)| *right == *grant.right).map(|(word, _)| *word);
    let mut shown = json!({"right": word});
    if let Some(zones) = &grant.zones.value {
        shown["zones"] = zones.iter().map(|zone| zone.value.to_string()).collect();
    }
    if let Some(names) = &grant.names.value {
        shown["names"] = names.iter().map(|name| name.value.to_string()).collect();
    }
    if let Some(types) = &grant.types.value {
        shown["types"] = types.iter().map(|rtype| rtype.value.to_string()).collect();
    }
    shown
}

/// Tokens change at each reload; the counts of those that stay are kept.
impl Adopt for TokenTable {
    fn adopt(&self, settings: &Settings) {
        let before = self.0.load_full();
        let known = |block: &At<ApiTokenBlock>| {
            let hash = block.token_hash()?;
            let same = before.iter().find(|token| token.hash == hash && *token.name == *block.name.0);
            Some(KnownToken {
                name: block.name.0.as_str().into(),
                hash,
                expires: block.expires.value.as_ref().map(|expires| (expires.at, expires.text.clone())),
                grants: block.rights.iter().map(|grant| grant.value.clone()).collect(),
                used: same.map(|token| Arc::clone(&token.used)).unwrap_or_default(),
            })
        };
        self.0.store(Arc::new(settings.api_tokens.iter().filter_map(known).collect()));
    }
}
