//! The program that runs in the kernel for every frame of the interface, as BPF instructions: which frames go
//! to the front's sockets and which pass to the kernel. No loading and attaching here, and no `unsafe`.
//!
//! It redirects frames to the interface's own link address, with at most one 802.1Q tag, that hold an
//! unfragmented UDP datagram, without IPv4 options or IPv6 extension headers, for one of the listeners'
//! addresses and ports, and that fit a frame of the front. Everything else passes to the kernel: ARP,
//! neighbour discovery, TCP, fragments, other services, and every frame of a queue without a socket.

use std::net::IpAddr;

use super::frame::{PROTOCOL_UDP, TYPE_IPV4, TYPE_IPV6, TYPE_TAG};

/// One BPF instruction in the kernel's layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    pub(super) code: u8,
    /// Destination and source register, four bits each.
    pub(super) registers: u8,
    pub(super) offset: i16,
    pub(super) immediate: i32,
}

/// The parameters of the program.
pub(super) struct Targets<'a> {
    /// Link-layer address of the interface.
    pub(super) link: [u8; 6],
    /// Addresses and ports whose datagrams are redirected.
    pub(super) sockets: &'a [(IpAddr, u16)],
    /// Longest frame redirected, in bytes.
    pub(super) longest: usize,
}

/// Slots of the map of counters, a power of two. Each takes [`SLOT`] bytes; frames of queue `q` count in slot
/// `q % SLOTS`.
pub(super) const SLOTS: usize = 64;
/// Bytes of a slot: a cache line, so that queues do not share one.
pub(super) const SLOT: usize = 64;

/// Most addresses in a program, which keeps its jumps short.
pub(super) const MOST_SOCKETS: usize = 512;

/// Registers: R0 holds results, R1 to R5 arguments, R6 keeps the context over the call.
const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R3: u8 = 3;
const R4: u8 = 4;
const R5: u8 = 5;
const CONTEXT: u8 = 6;

/// `XDP_PASS`.
pub(super) const PASS: i32 = 2;
/// The helper `bpf_redirect_map`.
pub(super) const REDIRECT_MAP: i32 = 51;
/// Marks the immediate of a wide load as the descriptor of a map, or of a map whose value is loaded.
const PSEUDO_MAP: u8 = 1;
const PSEUDO_VALUE: u8 = 2;

/// Fields of the context, `struct xdp_md`.
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const QUEUE: i16 = 16;

pub(super) const LOAD_U8: u8 = 0x71;
pub(super) const LOAD_U16: u8 = 0x69;
pub(super) const LOAD_U32: u8 = 0x61;
pub(super) const LOAD_WIDE: u8 = 0x18;
pub(super) const ATOMIC_U64: u8 = 0xdb;
pub(super) const MOVE: u8 = 0xbf;
pub(super) const MOVE_NUMBER: u8 = 0xb7;
pub(super) const ADD: u8 = 0x0f;
pub(super) const ADD_NUMBER: u8 = 0x07;
pub(super) const AND_NUMBER: u8 = 0x57;
pub(super) const SHIFT_LEFT: u8 = 0x67;
pub(super) const JUMP: u8 = 0x05;
pub(super) const JUMP_GREATER: u8 = 0x2d;
pub(super) const JUMP_LESS_EQUAL: u8 = 0xbd;
/// Compares the low 32 bits with a number.
pub(super) const JUMP_EQUAL: u8 = 0x16;
pub(super) const JUMP_NOT_EQUAL: u8 = 0x56;
pub(super) const CALL: u8 = 0x85;
pub(super) const EXIT: u8 = 0x95;

/// The target of jumps.
#[derive(Clone, Copy)]
struct Label(usize);

/// Writes instructions, and fills in jumps once their labels are placed.
#[derive(Default)]
struct Assembler {
    code: Vec<Instruction>,
    places: Vec<Option<usize>>,
    jumps: Vec<(usize, Label)>,
}

impl Assembler {
    fn op(&mut self, code: u8, to: u8, from: u8, offset: i16, immediate: i32) {
        // The kernel declares the registers as bit fields, whose order follows the byte order.
        let registers = if cfg!(target_endian = "big") { to << 4 | from } else { from << 4 | to };
        self.code.push(Instruction { code, registers, offset, immediate });
    }

    fn label(&mut self) -> Label {
        self.places.push(None);
        Label(self.places.len() - 1)
    }

    fn place(&mut self, label: Label) {
        self.places[label.0] = Some(self.code.len());
    }

    fn jump(&mut self, code: u8, a: u8, b: u8, number: i32, label: Label) {
        self.jumps.push((self.code.len(), label));
        self.op(code, a, b, 0, number);
    }

    /// Jumps to `label` unless the two bytes at `offset` of the frame equal `bytes`.
    fn unless_u16(&mut self, offset: i16, bytes: [u8; 2], label: Label) {
        self.op(LOAD_U16, R4, R2, offset, 0);
        self.jump(JUMP_NOT_EQUAL, R4, 0, u16::from_ne_bytes(bytes).into(), label);
    }

    fn unless_u8(&mut self, offset: i16, byte: u8, label: Label) {
        self.op(LOAD_U8, R4, R2, offset, 0);
        self.jump(JUMP_NOT_EQUAL, R4, 0, byte.into(), label);
    }

    /// Jumps to `label` unless the frame has `bytes` bytes from R2 on.
    fn unless_long(&mut self, bytes: i32, label: Label) {
        self.op(MOVE, R4, R2, 0, 0);
        self.op(ADD_NUMBER, R4, 0, 0, bytes);
        self.jump(JUMP_GREATER, R4, R3, 0, label);
    }

    /// Loads a map, or the start of its value, with a wide load.
    fn map(&mut self, to: u8, kind: u8, descriptor: i32) {
        self.op(LOAD_WIDE, to, kind, 0, descriptor);
        self.op(0, 0, 0, 0, 0);
    }

    /// Returns the finished program; `None` if a jump is too far or has no target.
    fn finish(mut self) -> Option<Vec<Instruction>> {
        for (at, label) in self.jumps {
            let distance = self.places[label.0]?.checked_sub(at + 1)?;
            self.code[at].offset = i16::try_from(distance).ok()?;
        }
        Some(self.code)
    }
}

/// Assembles the program: `sockets_map` and `counters_map` are descriptors of its maps. `None` if it would be
/// too long.
pub(super) fn assemble(
    targets: &Targets<'_>,
    sockets_map: i32,
    counters_map: i32,
) -> Option<Vec<Instruction>> {
    if targets.sockets.len() > MOST_SOCKETS {
        return None;
    }
    let mut a = Assembler::default();
    let (pass, ours, network, ipv6) = (a.label(), a.label(), a.label(), a.label());
    a.op(MOVE, CONTEXT, R1, 0, 0);
    a.op(LOAD_U32, R2, CONTEXT, DATA, 0);
    a.op(LOAD_U32, R3, CONTEXT, DATA_END, 0);
    a.unless_long(42, pass);
    // A frame longer than the front's would be dropped there.
    a.op(MOVE, R4, R2, 0, 0);
    a.op(ADD_NUMBER, R4, 0, 0, i32::try_from(targets.longest + 1).ok()?);
    a.jump(JUMP_LESS_EQUAL, R4, R3, 0, pass);
    for (offset, bytes) in (0..).step_by(2).zip(targets.link.as_chunks::<2>().0) {
        a.unless_u16(offset, *bytes, pass);
    }
    a.op(LOAD_U16, R5, R2, 12, 0);
    a.jump(JUMP_NOT_EQUAL, R5, 0, network_order(TYPE_TAG), network);
    a.op(LOAD_U16, R5, R2, 16, 0);
    a.op(ADD_NUMBER, R2, 0, 0, 4);
    a.unless_long(42, pass);
    a.place(network);
    a.jump(JUMP_NOT_EQUAL, R5, 0, network_order(TYPE_IPV4), ipv6);
    ipv4_part(&mut a, targets, ours, pass);
    a.place(ipv6);
    a.jump(JUMP_NOT_EQUAL, R5, 0, network_order(TYPE_IPV6), pass);
    ipv6_part(&mut a, targets, ours, pass);
    a.place(ours);
    a.map(R1, PSEUDO_MAP, sockets_map);
    a.op(LOAD_U32, R2, CONTEXT, QUEUE, 0);
    // The low bits of the flags are the return value if the queue has no socket.
    a.op(MOVE_NUMBER, R3, 0, 0, PASS);
    a.op(CALL, 0, 0, 0, REDIRECT_MAP);
    a.jump(JUMP_EQUAL, R0, 0, PASS, pass);
    a.op(EXIT, 0, 0, 0, 0);
    a.place(pass);
    a.map(R1, PSEUDO_VALUE, counters_map);
    a.op(LOAD_U32, R2, CONTEXT, QUEUE, 0);
    a.op(AND_NUMBER, R2, 0, 0, SLOTS as i32 - 1);
    a.op(SHIFT_LEFT, R2, 0, 0, SLOT.trailing_zeros() as i32);
    a.op(ADD, R1, R2, 0, 0);
    a.op(MOVE_NUMBER, R2, 0, 0, 1);
    a.op(ATOMIC_U64, R1, R2, 0, 0);
    a.op(MOVE_NUMBER, R0, 0, 0, PASS);
    a.op(EXIT, 0, 0, 0, 0);
    a.finish()
}

/// R2 points four bytes too far into a tagged frame, so offsets are those of an untagged one.
fn ipv4_part(a: &mut Assembler, targets: &Targets<'_>, ours: Label, pass: Label) {
    a.unless_u8(14, 0x45, pass);
    a.unless_u8(23, PROTOCOL_UDP, pass);
    // More fragments follow, or this is not the first.
    a.op(LOAD_U16, R4, R2, 20, 0);
    a.op(AND_NUMBER, R4, 0, 0, network_order(0x3fff));
    a.jump(JUMP_NOT_EQUAL, R4, 0, 0, pass);
    a.op(LOAD_U32, R5, R2, 30, 0);
    a.op(LOAD_U16, R4, R2, 36, 0);
    for (ip, port) in targets.sockets {
        if let IpAddr::V4(ip) = ip {
            let next = a.label();
            a.jump(JUMP_NOT_EQUAL, R5, 0, i32::from_ne_bytes(ip.octets()), next);
            a.jump(JUMP_EQUAL, R4, 0, network_order(*port), ours);
            a.place(next);
        }
    }
    a.jump(JUMP, 0, 0, 0, pass);
}

fn ipv6_part(a: &mut Assembler, targets: &Targets<'_>, ours: Label, pass: Label) {
    a.unless_long(62, pass);
    a.op(LOAD_U8, R4, R2, 14, 0);
    a.op(AND_NUMBER, R4, 0, 0, 0xf0);
    a.jump(JUMP_NOT_EQUAL, R4, 0, 0x60, pass);
    a.unless_u8(20, PROTOCOL_UDP, pass);
    a.op(LOAD_U16, R5, R2, 56, 0);
    for (ip, port) in targets.sockets {
        if let IpAddr::V6(ip) = ip {
            let next = a.label();
            for (offset, bytes) in (38..).step_by(4).zip(ip.octets().as_chunks::<4>().0) {
                a.op(LOAD_U32, R4, R2, offset, 0);
                a.jump(JUMP_NOT_EQUAL, R4, 0, i32::from_ne_bytes(*bytes), next);
            }
            a.jump(JUMP_EQUAL, R5, 0, network_order(*port), ours);
            a.place(next);
        }
    }
    a.jump(JUMP, 0, 0, 0, pass);
}

/// Returns a 16-bit field as a load reads it.
fn network_order(value: u16) -> i32 {
    value.to_be().into()
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use proptest::prelude::*;

    use super::super::frame::tests::frame;
    use super::*;

    /// Runs the program as the kernel would on a queue with a socket: returns whether it redirects. Panics
    /// where the kernel's verifier would refuse: reads outside the frame or before the start, unknown
    /// instructions, loops.
    fn redirects(program: &[Instruction], bytes: &[u8]) -> bool {
        const BASE: u64 = 1 << 32;
        let mut registers = [0_u64; 11];
        let (mut at, mut steps) = (0, 0);
        loop {
            steps += 1;
            assert!(steps <= program.len(), "a loop");
            let Instruction { code, registers: pair, offset, immediate } = program[at];
            let (to, from) =
                if cfg!(target_endian = "big") { (pair >> 4, pair & 15) } else { (pair & 15, pair >> 4) };
            let (to, from) = (usize::from(to), usize::from(from));
            let load = |len: usize| -> u64 {
                if from == usize::from(CONTEXT) {
                    assert_eq!(len, 4);
                    return match offset {
                        DATA => BASE,
                        DATA_END => BASE + bytes.len() as u64,
                        QUEUE => 3,
                        _ => panic!("no such field"),
                    };
                }
                let start = (registers[from] - BASE) as usize + offset as usize;
                let mut word = [0; 8];
                let place = if cfg!(target_endian = "big") { 8 - len..8 } else { 0..len };
                word[place].copy_from_slice(&bytes[start..start + len]);
                u64::from_ne_bytes(word)
            };
            let mut jump = false;
            match code {
                LOAD_U8 => registers[to] = load(1),
                LOAD_U16 => registers[to] = load(2),
                LOAD_U32 => registers[to] = load(4),
                LOAD_WIDE => at += 1,
                MOVE => registers[to] = registers[from],
                MOVE_NUMBER => registers[to] = immediate as u64,
                ADD => registers[to] += registers[from],
                ADD_NUMBER => registers[to] += immediate as u64,
                AND_NUMBER => registers[to] &= immediate as u64,
                SHIFT_LEFT => registers[to] <<= immediate,
                JUMP => jump = true,
                JUMP_GREATER => jump = registers[to] > registers[from],
                JUMP_LESS_EQUAL => jump = registers[to] <= registers[from],
                JUMP_EQUAL => jump = registers[to] as u32 == immediate as u32,
                JUMP_NOT_EQUAL => jump = registers[to] as u32 != immediate as u32,
                CALL => {
                    assert_eq!((immediate, registers[2], registers[3]), (REDIRECT_MAP, 3, PASS as u64));
                    registers[0] = 4;
                }
                ATOMIC_U64 => assert_eq!((registers[2], immediate), (1, 0)),
                EXIT => return registers[0] == 4,
                _ => panic!("no such instruction: {code:#x}"),
            }
            at += 1;
            if jump {
                at = at.checked_add_signed(offset.into()).unwrap();
            }
        }
    }

    fn program(sockets: &[(IpAddr, u16)], longest: usize) -> Vec<Instruction> {
        assemble(&Targets { link: [2, 0, 0, 0, 0, 1], sockets, longest }, 5, 6).unwrap()
    }

    fn served() -> Vec<(IpAddr, u16)> {
        [("192.0.2.2", 53), ("192.0.2.2", 5353), ("192.0.2.3", 54), ("2001:db8::2", 53)]
            .map(|(ip, port)| (ip.parse().unwrap(), port))
            .into()
    }

    fn addr(text: &str) -> SocketAddr {
        text.parse().unwrap()
    }

    #[test]
    fn only_our_addresses_and_ports_are_taken() {
        let program = program(&served(), 1792);
        let cases = [
            ("192.0.2.2:53", true),
            ("192.0.2.2:5353", true),
            ("192.0.2.3:54", true),
            ("192.0.2.2:54", false),
            ("192.0.2.3:53", false),
            ("192.0.2.4:53", false),
            ("[2001:db8::2]:53", true),
            ("[2001:db8::2]:54", false),
            ("[2001:db8::3]:53", false),
            ("[2001:db8:0:1::2]:53", false),
        ];
        for (to, expected) in cases {
            let from = addr(if to.starts_with('[') { "[2001:db8::1]:9" } else { "192.0.2.1:9" });
            for tag in [None, Some(7)] {
                let bytes = frame(from, addr(to), tag, &[0; 40]);
                assert_eq!(redirects(&program, &bytes), expected, "{to} {tag:?}");
            }
        }
    }

    #[test]
    fn anything_out_of_the_ordinary_passes() {
        let program = program(&served(), 1792);
        let v4 = frame(addr("192.0.2.1:9"), addr("192.0.2.2:53"), None, &[0; 40]);
        let v6 = frame(addr("[2001:db8::1]:9"), addr("[2001:db8::2]:53"), None, &[0; 40]);
        assert!(redirects(&program, &v4) && redirects(&program, &v6));
        // Another link address, another protocol, a version, options, TCP, fragments.
        let v4_changes: [&[(usize, u8)]; 8] = [
            &[(0, 3)],
            &[(5, 9)],
            &[(12, 8), (13, 6)],
            &[(14, 0x46)],
            &[(14, 0x65)],
            &[(23, 6)],
            &[(20, 0x20)],
            &[(21, 1)],
        ];
        let v6_changes: [&[(usize, u8)]; 4] = [&[(20, 6)], &[(20, 44)], &[(14, 0x40)], &[(1, 1)]];
        let cases = v4_changes.map(|c| (&v4, c)).into_iter().chain(v6_changes.map(|c| (&v6, c)));
        for (bytes, changes) in cases {
            let mut bytes = bytes.clone();
            for &(at, value) in changes {
                bytes[at] = value;
            }
            assert!(!redirects(&program, &bytes), "{changes:?}");
        }
        // DF alone does not make a fragment.
        let mut whole = v4.clone();
        whole[20] = 0x40;
        assert!(redirects(&program, &whole));
        // A second tag.
        let mut tagged = frame(addr("192.0.2.1:9"), addr("192.0.2.2:53"), Some(7), &[0; 40]);
        tagged[16..18].copy_from_slice(&[0x81, 0]);
        assert!(!redirects(&program, &tagged));
    }

    #[test]
    fn frames_longer_than_ours_pass() {
        let (from, to) = (addr("192.0.2.1:9"), addr("192.0.2.2:53"));
        let program = program(&served(), 500);
        assert!(redirects(&program, &frame(from, to, None, &vec![0; 500 - 42])));
        assert!(!redirects(&program, &frame(from, to, None, &vec![0; 501 - 42])));
        assert!(redirects(&program, &frame(from, to, Some(1), &vec![0; 500 - 46])));
        assert!(!redirects(&program, &frame(from, to, Some(1), &vec![0; 501 - 46])));
    }

    #[test]
    fn as_many_addresses_as_allowed_make_a_program() {
        let many = |n: usize| -> Vec<(IpAddr, u16)> {
            (0..n).map(|i| ([0x20, 1, 0, 0, 0, 0, 0, i as u16].into(), 53)).collect()
        };
        let last = SocketAddr::from(([0x20, 1, 0, 0, 0, 0, 0, MOST_SOCKETS as u16 - 1], 53));
        let bytes = frame(addr("[2001:db8::1]:9"), last, None, &[0; 40]);
        assert!(redirects(&program(&many(MOST_SOCKETS), 1792), &bytes));
        let sockets = many(MOST_SOCKETS + 1);
        assert!(assemble(&Targets { link: [0; 6], sockets: &sockets, longest: 1792 }, 0, 0).is_none());
    }

    proptest! {
        /// Reads nothing outside of any frame: the interpreter panics where the kernel would refuse.
        #[test]
        fn cut_and_damaged_frames_are_safe(
            v6 in any::<bool>(),
            tag in any::<Option<u16>>(),
            noise in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
            cut in any::<prop::sample::Index>(),
        ) {
            let (from, to) = if v6 { ("[2001:db8::1]:9", "[2001:db8::2]:53") } else { ("192.0.2.1:9", "192.0.2.2:53") };
            let mut bytes = frame(addr(from), addr(to), tag, &[0; 30]);
            for (at, value) in noise {
                let at = at.index(bytes.len());
                bytes[at] = value;
            }
            bytes.truncate(cut.index(bytes.len() + 1));
            redirects(&program(&served(), 1792), &bytes);
        }
    }
}
