//! The Protocol Buffers of `dnstap.proto`, with its field numbers. Optional fields may be missing.

/// One frame: a DNS message and the server that saw it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DnstapFrame {
    /// Name of the server.
    #[prost(bytes = "vec", optional, tag = "1")]
    pub identity: Option<Vec<u8>>,
    /// Program and version of the server.
    #[prost(bytes = "vec", optional, tag = "2")]
    pub version: Option<Vec<u8>>,
    /// Text about the message that no other field has.
    #[prost(bytes = "vec", optional, tag = "3")]
    pub extra: Option<Vec<u8>>,
    /// The message.
    #[prost(message, optional, boxed, tag = "14")]
    pub message: Option<Box<DnstapMessage>>,
    /// The kind of content.
    #[prost(enumeration = "DnstapType", required, tag = "15")]
    pub of: i32,
}

/// The kinds of content: only one so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum DnstapType {
    /// A DNS message.
    Message = 1,
}

/// One DNS message, received or sent.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DnstapMessage {
    /// Role and direction of the message.
    #[prost(enumeration = "DnstapKind", required, tag = "1")]
    pub kind: i32,
    /// The family of both addresses.
    #[prost(enumeration = "DnstapSocketFamily", optional, tag = "2")]
    pub socket_family: Option<i32>,
    /// The transport.
    #[prost(enumeration = "DnstapSocketProtocol", optional, tag = "3")]
    pub socket_protocol: Option<i32>,
    /// Address of the initiator: 4 or 16 bytes.
    #[prost(bytes = "vec", optional, tag = "4")]
    pub query_address: Option<Vec<u8>>,
    /// Address of the responder.
    #[prost(bytes = "vec", optional, tag = "5")]
    pub response_address: Option<Vec<u8>>,
    /// Port of the initiator.
    #[prost(uint32, optional, tag = "6")]
    pub query_port: Option<u32>,
    /// Port of the responder.
    #[prost(uint32, optional, tag = "7")]
    pub response_port: Option<u32>,
    /// When the query was received, or sent to an upstream server: seconds since 1970.
    #[prost(uint64, optional, tag = "8")]
    pub query_time_sec: Option<u64>,
    /// Nanoseconds of that second.
    #[prost(fixed32, optional, tag = "9")]
    pub query_time_nsec: Option<u32>,
    /// The query as on the wire.
    #[prost(bytes = "vec", optional, tag = "10")]
    pub query_message: Option<Vec<u8>>,
    /// The zone that QNAME is in, as on the wire.
    #[prost(bytes = "vec", optional, tag = "11")]
    pub query_zone: Option<Vec<u8>>,
    /// When the response was sent, or received from an upstream server: seconds since 1970.
    #[prost(uint64, optional, tag = "12")]
    pub response_time_sec: Option<u64>,
    /// Nanoseconds of that second.
    #[prost(fixed32, optional, tag = "13")]
    pub response_time_nsec: Option<u32>,
    /// The response as on the wire.
    #[prost(bytes = "vec", optional, tag = "14")]
    pub response_message: Option<Vec<u8>>,
    /// The policy that decided the answer.
    #[prost(message, optional, tag = "15")]
    pub policy: Option<DnstapPolicy>,
}

/// The policy of an operator that decided an answer. The fields `rule` (2) and `value` (5) are never written.
#[derive(Clone, PartialEq, prost::Message)]
pub struct DnstapPolicy {
    /// The type of the policy, such as "RPZ".
    #[prost(string, optional, tag = "1")]
    pub of: Option<String>,
    /// What it does.
    #[prost(enumeration = "DnstapPolicyAction", optional, tag = "3")]
    pub action: Option<i32>,
    /// What it is about.
    #[prost(enumeration = "DnstapPolicyMatch", optional, tag = "4")]
    pub matched: Option<i32>,
}

/// What a policy does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum DnstapPolicyAction {
    /// NXDOMAIN.
    NxDomain = 1,
    /// No records.
    NoData = 2,
    /// The answer stays as it is.
    Pass = 3,
    /// No reply.
    Drop = 4,
    /// A truncated reply.
    Truncate = 5,
    /// Records of the operator.
    LocalData = 6,
}

/// What a policy is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum DnstapPolicyMatch {
    /// The query name, or a target of its aliases.
    Qname = 1,
    /// The client's address.
    ClientIp = 2,
    /// An address in the response.
    ResponseIp = 3,
    /// The name of a name server.
    NsName = 4,
    /// The address of a name server.
    NsIp = 5,
}

/// Role and direction of a message. Only those values of `dnstap.proto` that this server uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum DnstapKind {
    /// Query received by an authoritative server.
    AuthQuery = 1,
    /// Response sent by an authoritative server.
    AuthResponse = 2,
    /// Query sent by a resolver to an authoritative server.
    ResolverQuery = 3,
    /// Response received by a resolver from an authoritative server.
    ResolverResponse = 4,
    /// Query received by a resolver from a client.
    ClientQuery = 5,
    /// Response sent by a resolver to a client.
    ClientResponse = 6,
    /// Query sent by a forwarder to a resolver.
    ForwarderQuery = 7,
    /// Response received by a forwarder from a resolver.
    ForwarderResponse = 8,
    /// Dynamic update received.
    UpdateQuery = 13,
    /// Response sent to a dynamic update.
    UpdateResponse = 14,
}

impl DnstapKind {
    /// Whether it is a response.
    pub fn is_response(self) -> bool {
        self as i32 % 2 == 0
    }
}

/// The address family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum DnstapSocketFamily {
    /// IPv4.
    Inet = 1,
    /// IPv6.
    Inet6 = 2,
}

/// The transport of a message. Only those values of `dnstap.proto` that this server uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum DnstapSocketProtocol {
    /// UDP (RFC 1035 §4.2.1).
    Udp = 1,
    /// TCP (RFC 7766).
    Tcp = 2,
    /// DNS over TLS (RFC 7858).
    Dot = 3,
    /// DNS over HTTPS (RFC 8484).
    Doh = 4,
    /// DNS over QUIC (RFC 9250).
    Doq = 7,
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;

    /// The encoding of `dnstap.proto`, written by hand: the tag of a field is its number times eight plus its
    /// wire type.
    #[test]
    fn fields_have_the_numbers_of_dnstap_proto() {
        let message = DnstapMessage {
            kind: DnstapKind::AuthResponse as i32,
            socket_family: Some(DnstapSocketFamily::Inet as i32),
            socket_protocol: Some(DnstapSocketProtocol::Udp as i32),
            query_address: Some(vec![192, 0, 2, 1]),
            response_address: Some(vec![192, 0, 2, 2]),
            query_port: Some(300),
            response_port: Some(53),
            query_time_sec: Some(5),
            query_time_nsec: Some(6),
            query_message: Some(b"q".to_vec()),
            query_zone: Some(b"\0".to_vec()),
            response_time_sec: Some(7),
            response_time_nsec: Some(8),
            response_message: Some(b"r".to_vec()),
            policy: Some(DnstapPolicy {
                of: Some("RPZ".into()),
                action: Some(DnstapPolicyAction::LocalData as i32),
                matched: Some(DnstapPolicyMatch::NsIp as i32),
            }),
        };
        let inner = [
            b"\x08\x02\x10\x01\x18\x01\x22\x04\xc0\0\x02\x01\x2a\x04\xc0\0\x02\x02".as_slice(),
            b"\x30\xac\x02\x38\x35\x40\x05\x4d\x06\0\0\0\x52\x01q\x5a\x01\0".as_slice(),
            b"\x60\x07\x6d\x08\0\0\0\x72\x01r".as_slice(),
            b"\x7a\x09\x0a\x03RPZ\x18\x06\x20\x05".as_slice(),
        ]
        .concat();
        let len = u8::try_from(inner.len()).expect("one byte");
        let whole = [b"\x0a\x01i\x12\x01v\x1a\x01x\x72".as_slice(), &[len], &inner, b"\x78\x01"].concat();
        let frame = DnstapFrame {
            identity: Some(b"i".to_vec()),
            version: Some(b"v".to_vec()),
            extra: Some(b"x".to_vec()),
            message: Some(Box::new(message)),
            of: DnstapType::Message as i32,
        };
        assert_eq!(frame.encode_to_vec(), whole);
        assert_eq!(DnstapFrame::decode(whole.as_slice()), Ok(frame));
    }

    #[test]
    fn responses_have_even_numbers() {
        use DnstapKind::*;
        let responses = [AuthResponse, ResolverResponse, ClientResponse, ForwarderResponse, UpdateResponse];
        let queries = [AuthQuery, ResolverQuery, ClientQuery, ForwarderQuery, UpdateQuery];
        assert!(responses.iter().all(|kind| kind.is_response()));
        assert!(!queries.iter().any(|kind| kind.is_response()));
    }
}
