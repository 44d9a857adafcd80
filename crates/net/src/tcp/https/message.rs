//! DNS messages in HTTP requests and responses (RFC 8484 §4 and §5), also those of Oblivious DoH (RFC 9230),
//! without connections.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use data_encoding::BASE64URL_NOPAD;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use transport::{ForwardedHeader, MAX_MESSAGE, MessageStream, Next, ProxyHeaderFault};

use super::body::{ReplyBody, Unsent};
use crate::config::{HttpCacheTime, ListenerConfig};
use crate::oblivious::{ObliviousQuery, ObliviousRefusal, ObliviousTarget, PublishedConfigs, SealResponse};
use crate::stats::WorkerStats;

/// The media type of DNS messages.
const DNS_MESSAGE: &str = "application/dns-message";
/// The media type of messages of Oblivious DoH (RFC 9230 §4), and of a target's configurations.
const OBLIVIOUS_MESSAGE: &str = "application/oblivious-dns-message";
const OCTETS: &str = "application/octet-stream";
/// The challenge of a response 401 (RFC 9110 §15.5.2), which RFC 9230 leaves open. No scheme has this name:
/// clients with credentials have none for it, and those of Oblivious DoH go by the status.
const OBLIVIOUS_CHALLENGE: &str = "ODoH";
/// Seconds after which a client with too many malformed messages may try again.
const RETRY_TIME: &str = "1";
/// Where clients of Oblivious DoH look for the configurations of a target.
const OBLIVIOUS_CONFIGS: &str = "/.well-known/odohconfigs";
/// Length of a DNS header, in bytes.
const DNS_HEADER: usize = 12;

/// Where the DNS message of a request is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum MessageSource {
    /// The message, from the URL.
    Url(Vec<u8>),
    /// The body has it.
    Body,
    /// The body has it, encrypted (RFC 9230).
    ObliviousBody,
    /// There is none: the request is for the configurations of Oblivious DoH.
    ObliviousConfigs,
}

/// What a request asks for.
pub(crate) enum Asked {
    /// The answer to a DNS message, encrypted by `seal` if that is there.
    Query { message: Vec<u8>, seal: Option<SealResponse> },
    /// The configurations of Oblivious DoH.
    Configs(PublishedConfigs),
}

/// Why a request has no usable DNS message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BadRequest {
    /// DNS is not served at this path.
    Path,
    /// Another method than these.
    Method(&'static str),
    /// The body has another media type.
    MediaType,
    /// There is no message: no parameter `dns`, invalid base64url, or fewer bytes than a DNS header has.
    NoMessage,
    /// The message is longer than DNS messages are.
    TooLong,
    /// The message is encrypted to a key that is not one of this server's (RFC 9230 §4.3).
    UnknownKey,
    /// The client has sent too many malformed messages of Oblivious DoH.
    TooManyMalformed,
    /// The answer is too long to be encrypted.
    AnswerTooLong,
    /// The body was not complete in time.
    Timeout,
    /// Many messages answer this query, such as a zone transfer; HTTP has one.
    ManyMessages,
    /// A proxy did not name the client in the header that it has to send.
    Client(ForwardedHeader, ProxyHeaderFault),
}

impl BadRequest {
    fn status(self) -> StatusCode {
        match self {
            BadRequest::Path => StatusCode::NOT_FOUND,
            BadRequest::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            BadRequest::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            BadRequest::NoMessage | BadRequest::Client(..) => StatusCode::BAD_REQUEST,
            BadRequest::TooLong => StatusCode::PAYLOAD_TOO_LARGE,
            BadRequest::UnknownKey => StatusCode::UNAUTHORIZED,
            BadRequest::TooManyMalformed => StatusCode::TOO_MANY_REQUESTS,
            BadRequest::AnswerTooLong => StatusCode::INTERNAL_SERVER_ERROR,
            BadRequest::Timeout => StatusCode::REQUEST_TIMEOUT,
            BadRequest::ManyMessages => StatusCode::NOT_IMPLEMENTED,
        }
    }

    /// Returns the head of the response.
    pub(crate) fn head(self) -> Response<()> {
        let mut response = Response::new(());
        *response.status_mut() = self.status();
        let headers = response.headers_mut();
        match self {
            BadRequest::Method(allowed) => {
                headers.insert(ALLOW, HeaderValue::from_static(allowed));
            }
            BadRequest::UnknownKey => {
                headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static(OBLIVIOUS_CHALLENGE));
            }
            BadRequest::TooManyMalformed => {
                headers.insert(RETRY_AFTER, HeaderValue::from_static(RETRY_TIME));
            }
            BadRequest::Client(..) => {
                headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
            }
            _ => {}
        }
        response
    }

    /// Returns the response: a status without a body, except for the operator of a proxy.
    pub(super) fn response(self, unsent: &Arc<Unsent>) -> Response<ReplyBody> {
        let body = match self {
            BadRequest::Client(header, fault) => {
                ReplyBody::new(explained(header, fault).into_bytes(), unsent)
            }
            _ => ReplyBody::empty(),
        };
        self.head().map(|()| body)
    }
}

/// Returns why a proxy named no client, in words for its operator.
fn explained(header: ForwardedHeader, fault: ProxyHeaderFault) -> String {
    let name = header.name();
    match fault {
        ProxyHeaderFault::Missing => {
            format!("the proxy sent no header {name}, which has to name the client\n")
        }
        ProxyHeaderFault::Malformed => format!("the header {name} has no valid address of the client\n"),
        ProxyHeaderFault::TooLong => format!("the header {name} has too many addresses of proxies\n"),
        ProxyHeaderFault::NoAddress => format!("the header {name} names the client without an address\n"),
    }
}

/// Returns the client that the header of a request names. `is_proxy`: whether an address is a proxy's.
///
/// # Errors
/// [`BadRequest::Client`] if it names none.
pub(super) fn client(
    head: &Parts,
    header: ForwardedHeader,
    is_proxy: impl Fn(IpAddr) -> bool,
) -> Result<SocketAddr, BadRequest> {
    let lines: Vec<&[u8]> = head.headers.get_all(header.name()).iter().map(HeaderValue::as_bytes).collect();
    header.client(lines.into_iter(), is_proxy).map_err(|fault| BadRequest::Client(header, fault))
}

/// Finds the DNS message of a request by its head, and the name that the client has written for itself in the
/// path.
///
/// # Errors
/// Why there is none.
pub(crate) fn source(
    head: &Parts,
    config: &ListenerConfig,
) -> Result<(MessageSource, Option<Arc<str>>), BadRequest> {
    let path = head.uri.path();
    if config.https_paths.iter().any(|own| own == path) {
        return Ok((source_of(head)?, None));
    }
    match (config.client_names.of_path(path), path, &head.method) {
        (Some(name), ..) => Ok((source_of(head)?, Some(name))),
        (None, OBLIVIOUS_CONFIGS, &Method::GET) => Ok((MessageSource::ObliviousConfigs, None)),
        (None, OBLIVIOUS_CONFIGS, _) => Err(BadRequest::Method("GET")),
        _ => Err(BadRequest::Path),
    }
}

/// Finds the DNS message of a request at a path of DNS.
fn source_of(head: &Parts) -> Result<MessageSource, BadRequest> {
    match head.method {
        Method::GET => {
            let query = head.uri.query().unwrap_or_default();
            let text = query.split('&').find_map(|pair| pair.strip_prefix("dns="));
            // Some clients pad, which the RFC does not let them.
            let text = text.ok_or(BadRequest::NoMessage)?.trim_end_matches('=');
            let message = BASE64URL_NOPAD.decode(text.as_bytes()).map_err(|_| BadRequest::NoMessage)?;
            checked(&message)?;
            Ok(MessageSource::Url(message))
        }
        Method::POST => {
            let kind = head.headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
            let kind = kind.split(';').next().unwrap_or_default().trim();
            if kind.eq_ignore_ascii_case(DNS_MESSAGE) {
                Ok(MessageSource::Body)
            } else if kind.eq_ignore_ascii_case(OBLIVIOUS_MESSAGE) {
                Ok(MessageSource::ObliviousBody)
            } else {
                Err(BadRequest::MediaType)
            }
        }
        _ => Err(BadRequest::Method("GET, POST")),
    }
}

/// Returns what a request of a client asks for. `target`: decrypts messages of Oblivious DoH.
///
/// # Errors
/// Why it gets another status than 200. While the target is off, as if there were no Oblivious DoH.
pub(crate) fn asked(
    source: MessageSource,
    body: Result<Vec<u8>, BadRequest>,
    target: Option<&dyn ObliviousTarget>,
    client: IpAddr,
    stats: &WorkerStats,
) -> Result<Asked, BadRequest> {
    match source {
        MessageSource::Url(message) => Ok(Asked::Query { message, seal: None }),
        MessageSource::Body => {
            let message = body?;
            checked(&message)?;
            Ok(Asked::Query { message, seal: None })
        }
        MessageSource::ObliviousBody => {
            let target = target.ok_or(BadRequest::MediaType)?;
            let opened = target.open(&body?, client).map_err(|refusal| match refusal {
                ObliviousRefusal::Off => BadRequest::MediaType,
                ObliviousRefusal::UnknownKey => BadRequest::UnknownKey,
                ObliviousRefusal::Malformed => BadRequest::NoMessage,
                ObliviousRefusal::TooMany => BadRequest::TooManyMalformed,
            });
            let opened = opened.and_then(|opened| checked(&opened.message).map(|()| opened));
            match &opened {
                Ok(_) => stats.odoh_queries.add(1),
                Err(BadRequest::UnknownKey) => stats.odoh_unknown_key.add(1),
                Err(BadRequest::NoMessage) => stats.odoh_malformed.add(1),
                Err(BadRequest::TooManyMalformed) => stats.odoh_limited.add(1),
                Err(_) => {}
            }
            opened.map(|ObliviousQuery { message, seal }| Asked::Query { message, seal: Some(seal) })
        }
        MessageSource::ObliviousConfigs => {
            target.and_then(ObliviousTarget::configs).map(Asked::Configs).ok_or(BadRequest::Path)
        }
    }
}

/// Checks the length of a DNS message.
pub(crate) fn checked(message: &[u8]) -> Result<(), BadRequest> {
    match message.len() {
        ..DNS_HEADER => Err(BadRequest::NoMessage),
        DNS_HEADER..=MAX_MESSAGE => Ok(()),
        _ => Err(BadRequest::TooLong),
    }
}

/// The head and the body of a response.
pub(crate) type Reply = (Response<()>, Vec<u8>);

/// Returns the response with a DNS message. `seal`: encrypts it; `fresh`: the time that caches may keep one
/// that is not encrypted, in seconds.
///
/// # Errors
/// [`BadRequest::AnswerTooLong`].
pub(crate) fn response(
    reply: Vec<u8>,
    seal: Option<SealResponse>,
    fresh: Option<HttpCacheTime>,
) -> Result<Reply, BadRequest> {
    match seal {
        Some(seal) => {
            let sealed = seal(&reply).ok_or(BadRequest::AnswerTooLong)?;
            Ok((head(OBLIVIOUS_MESSAGE, None), sealed))
        }
        None => Ok((head(DNS_MESSAGE, fresh.and_then(|fresh| fresh(&reply))), reply)),
    }
}

/// Returns the response with the configurations of Oblivious DoH.
pub(crate) fn configs(PublishedConfigs { bytes, max_age }: PublishedConfigs) -> Reply {
    (head(OCTETS, Some(max_age)), bytes)
}

/// Returns the head of a response with a body of this type. `fresh`: the time that caches may keep it.
fn head(kind: &'static str, fresh: Option<u32>) -> Response<()> {
    let mut response = Response::new(());
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    let control = match fresh {
        Some(seconds) => HeaderValue::try_from(format!("max-age={seconds}")).ok(),
        None => None,
    };
    headers.insert(CACHE_CONTROL, control.unwrap_or(HeaderValue::from_static("no-store")));
    response
}

/// Returns the message of a stream that has one alone: HTTP carries no more; `Err(None)`: it has none.
pub(crate) fn only(mut stream: Box<dyn MessageStream>) -> Result<Vec<u8>, Option<BadRequest>> {
    let mut message = vec![0; MAX_MESSAGE];
    match stream.next(&mut message) {
        Next::Message(len) if (1..=MAX_MESSAGE).contains(&len) => message.truncate(len),
        Next::Message(_) | Next::End | Next::Abort => return Err(None),
    }
    match stream.next(&mut [0; MAX_MESSAGE]) {
        Next::End => Ok(message),
        Next::Message(_) | Next::Abort => Err(Some(BadRequest::ManyMessages)),
    }
}

#[cfg(test)]
mod tests {
    use hyper::Request;
    use proptest::prelude::*;

    use super::*;

    fn read(method: &str, uri: &str, kind: &str) -> Result<MessageSource, BadRequest> {
        let mut request = Request::builder().method(method).uri(uri);
        if !kind.is_empty() {
            request = request.header(CONTENT_TYPE, kind);
        }
        let (head, ()) = request.body(()).expect("a request").into_parts();
        let https_paths = vec!["/dns-query".into(), "/other".into()];
        let config = ListenerConfig { workers: 1, https_paths, ..ListenerConfig::default() };
        source(&head, &config).map(|(source, _)| source)
    }

    #[test]
    fn the_example_of_the_rfc_is_read() {
        // RFC 8484 §4.1.1: www.example.com A.
        let text = "AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB";
        let message = b"\0\0\x01\0\0\x01\0\0\0\0\0\0\x03www\x07example\x03com\0\0\x01\0\x01".to_vec();
        for uri in [
            format!("/dns-query?dns={text}"),
            format!("https://dns.example/dns-query?dns={text}"),
            format!("/other?a=b&dns={text}&c"),
            format!("/dns-query?dns={text}=="),
        ] {
            assert_eq!(read("GET", &uri, ""), Ok(MessageSource::Url(message.clone())), "{uri}");
        }
    }

    #[test]
    fn requests_without_a_message_have_a_status() {
        let text = "AAABAAABAAAAAAAAA3d3dwdleGFtcGxlA2NvbQAAAQAB";
        for (method, uri, kind, expected) in [
            ("GET", "/", "", 404),
            ("GET", "/dns-query/", "", 404),
            ("GET", "/dns-query", "", 400),
            ("GET", "/dns-query?dns=", "", 400),
            ("GET", "/dns-query?dns=AAAB", "", 400),
            ("GET", "/dns-query?dns=A+/B", "", 400),
            ("GET", &format!("/dns-query?dn={text}"), "", 400),
            ("GET", &format!("/dns-query?dns={}", "A".repeat(87_400)), "", 413),
            ("PUT", &format!("/dns-query?dns={text}"), "", 405),
            ("HEAD", &format!("/dns-query?dns={text}"), "", 405),
            ("POST", "/dns-query", "", 415),
            ("POST", "/dns-query", "application/dns-json", 415),
        ] {
            // A URI has at most 65,534 bytes.
            if uri.len() > 65_534 {
                continue;
            }
            let fault = read(method, uri, kind).expect_err(uri);
            assert_eq!(fault.response(&Arc::default()).status().as_u16(), expected, "{method} {uri}");
        }
        for kind in ["application/dns-message", "Application/DNS-Message; charset=x"] {
            assert_eq!(read("POST", "/dns-query", kind), Ok(MessageSource::Body));
        }
        assert_eq!(checked(&[0; 11]), Err(BadRequest::NoMessage));
        assert_eq!((checked(&[0; 12]), checked(&[0; 65_535])), (Ok(()), Ok(())));
        assert_eq!(checked(&[0; 65_536]), Err(BadRequest::TooLong));
    }

    /// Decodes base64url bit by bit; `None` if a character is none of it, or the length or the last bits are
    /// those of no bytes.
    fn decoded(text: &str) -> Option<Vec<u8>> {
        const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        let mut bits = Vec::new();
        for digit in text.chars() {
            let value = DIGITS.find(digit)?;
            bits.extend((0..6).rev().map(|bit| (value >> bit & 1) as u8));
        }
        let (bytes, rest) = bits.as_chunks::<8>();
        let is_whole = rest.len() < 6 && rest.iter().all(|&bit| bit == 0);
        is_whole.then(|| bytes.iter().map(|bits| bits.iter().fold(0, |byte, bit| byte << 1 | bit)).collect())
    }

    proptest! {
        #[test]
        fn any_url_has_the_message_of_its_first_parameter_or_a_status(
            path in prop_oneof![Just("/dns-query"), Just("/other"), Just("/dns"), Just("/")],
            before in "([a-z]{1,4}=[A-Za-z0-9]{0,4}&){0,2}",
            name in prop_oneof![4 => Just("dns"), 1 => Just("Dns"), 1 => Just("xdns")],
            text in prop_oneof![
                prop::collection::vec(any::<u8>(), 0..60).prop_map(|bytes| BASE64URL_NOPAD.encode(&bytes)),
                "[A-Za-z0-9_=%+.-]{0,40}",
            ],
            after in "(&[a-z]{1,4}){0,2}",
        ) {
            let found = read("GET", &format!("{path}?{before}{name}={text}{after}"), "");
            let first = format!("{before}{name}={text}{after}");
            let first = first.split('&').find_map(|pair| pair.strip_prefix("dns="));
            let message = first.and_then(|text| decoded(text.trim_end_matches('=')));
            let expected = match message.filter(|message| message.len() >= 12) {
                _ if !["/dns-query", "/other"].contains(&path) => Err(BadRequest::Path),
                Some(message) => Ok(MessageSource::Url(message)),
                None => Err(BadRequest::NoMessage),
            };
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn responses_name_their_type_and_how_long_they_are_fresh() {
        let of = |(head, body): Reply| {
            let header = |name| head.headers()[name].to_str().expect("text").to_owned();
            (header(CONTENT_TYPE), header(CACHE_CONTROL), body)
        };
        let plain = |fresh| of(response(vec![7], None, fresh).expect("a response"));
        assert_eq!(plain(Some(|_| Some(300))), (DNS_MESSAGE.into(), "max-age=300".into(), vec![7]));
        assert_eq!(plain(Some(|_| None)), (DNS_MESSAGE.into(), "no-store".into(), vec![7]));
        assert_eq!(plain(None), (DNS_MESSAGE.into(), "no-store".into(), vec![7]));
        let seal: SealResponse = Box::new(|reply| Some([reply, &[8]].concat()));
        let sealed = of(response(vec![7], Some(seal), Some(|_| Some(300))).expect("a response"));
        assert_eq!(sealed, (OBLIVIOUS_MESSAGE.into(), "no-store".into(), vec![7, 8]));
        let too_long = response(vec![7], Some(Box::new(|_| None)), None);
        assert_eq!(too_long.err().map(BadRequest::status), Some(StatusCode::INTERNAL_SERVER_ERROR));
        let published = configs(PublishedConfigs { bytes: vec![9], max_age: 60 });
        assert_eq!(of(published), (OCTETS.into(), "max-age=60".into(), vec![9]));
    }

    const CLIENT: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    /// A target that takes messages that begin with 1, and refuses others.
    struct TestTarget(bool);

    impl ObliviousTarget for TestTarget {
        fn configs(&self) -> Option<PublishedConfigs> {
            self.0.then(|| PublishedConfigs { bytes: vec![1], max_age: 60 })
        }

        fn open(&self, message: &[u8], _: IpAddr) -> Result<ObliviousQuery, ObliviousRefusal> {
            match message {
                _ if !self.0 => Err(ObliviousRefusal::Off),
                [1, message @ ..] => {
                    Ok(ObliviousQuery { message: message.to_vec(), seal: Box::new(|_| None) })
                }
                [2, ..] => Err(ObliviousRefusal::UnknownKey),
                [4, ..] => Err(ObliviousRefusal::TooMany),
                _ => Err(ObliviousRefusal::Malformed),
            }
        }
    }

    #[test]
    fn oblivious_messages_are_decrypted_or_get_the_status_of_their_fault() {
        let stats = WorkerStats::default();
        let (on, off) = (TestTarget(true), TestTarget(false));
        let status = |body: &[u8], target: Option<&dyn ObliviousTarget>| {
            let source = read("POST", "/dns-query", "application/Oblivious-dns-message").expect("a source");
            let status = |fault: BadRequest| fault.status().as_u16();
            asked(source, Ok(body.to_vec()), target, CLIENT, &stats).map_or_else(status, |asked| {
                assert!(matches!(asked, Asked::Query { seal: Some(_), .. }));
                200
            })
        };
        assert_eq!(status(&[1; 13], Some(&on)), 200);
        assert_eq!(status(&[1; 12], Some(&on)), 400, "shorter than a DNS header");
        assert_eq!((status(&[2; 13], Some(&on)), status(&[3; 13], Some(&on))), (401, 400));
        assert_eq!((status(&[1; 13], Some(&off)), status(&[1; 13], None)), (415, 415));
        let counts = (stats.odoh_queries.get(), stats.odoh_unknown_key.get(), stats.odoh_malformed.get());
        assert_eq!(counts, (1, 1, 2));
        assert_eq!((status(&[4; 13], Some(&on)), stats.odoh_limited.get()), (429, 1));
        let header =
            |fault: BadRequest, name| fault.head().headers()[name].to_str().expect("text").to_owned();
        assert_eq!(header(BadRequest::UnknownKey, WWW_AUTHENTICATE), "ODoH");
        assert_eq!(header(BadRequest::TooManyMalformed, RETRY_AFTER), "1");
        let configs = |method, target: Option<&dyn ObliviousTarget>| {
            let asked = asked(read(method, OBLIVIOUS_CONFIGS, "")?, Ok(Vec::new()), target, CLIENT, &stats)?;
            Ok(matches!(asked, Asked::Configs(PublishedConfigs { max_age: 60, .. })))
        };
        assert_eq!(configs("GET", Some(&on)), Ok(true));
        assert_eq!(
            (configs("GET", Some(&off)), configs("GET", None)),
            (Err(BadRequest::Path), Err(BadRequest::Path))
        );
        assert_eq!(configs("POST", Some(&on)), Err(BadRequest::Method("GET")));
    }
}
