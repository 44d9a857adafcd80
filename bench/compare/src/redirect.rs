//! Sets up AF_XDP for dnsdist: attaches a program to the interface that redirects queries to its socket, and
//! pins the maps that it opens. Its manual has a script for that, which needs a BPF compiler; this code needs
//! only bpf(2).

use std::fs;
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::failure::{Context, Failure, Result};
use crate::sys;

/// Folder of dnsdist's maps; the first has the sockets, the others the addresses that are received by AF_XDP.
const FOLDER: &str = "/sys/fs/bpf/dnsdist";
/// The map of sockets.
pub(crate) const SOCKETS: &str = "/sys/fs/bpf/dnsdist/xskmap";
/// Maps of addresses: name, and size of an address with its port in bytes.
const ADDRESSES: [(&str, u32); 2] = [("xsk-destinations-v4", 8), ("xsk-destinations-v6", 20)];

const MAP_HASH: u32 = 1;
const MAP_SOCKETS: u32 = 17;
/// Number of entries of each map; one is used.
const ENTRIES: u32 = 64;

/// Sets everything up in the mount namespace of this process, and executes the command.
pub(crate) fn run(interface: &str, listen: SocketAddr, command: &[String]) -> Result<()> {
    let mount = Command::new("mount").args(["-t", "bpf", "bpf", "/sys/fs/bpf"]).stdin(Stdio::null()).status();
    if !mount.context(|| "mount".to_string())?.success() {
        return Err(Failure::new("no AF_XDP: /sys/fs/bpf cannot be mounted"));
    }
    fs::create_dir(FOLDER).context(|| FOLDER.to_string())?;
    let failed = |what: &'static str| move || format!("no AF_XDP: {what}");
    let sockets = sys::bpf_map(MAP_SOCKETS, 4, 4, ENTRIES).context(failed("the map of sockets"))?;
    sys::bpf_pin(&sockets, Path::new(SOCKETS)).context(failed("the map of sockets has no place"))?;
    for (name, key) in ADDRESSES {
        let map = sys::bpf_map(MAP_HASH, key, 1, ENTRIES).context(failed("a map of addresses"))?;
        sys::bpf_pin(&map, &Path::new(FOLDER).join(name))
            .context(failed("a map of addresses has no place"))?;
    }
    let program = sys::bpf_program(&program(&sockets, listen.port())).context(failed("the program"))?;
    let index = Path::new("/sys/class/net").join(interface).join("ifindex");
    let index = fs::read_to_string(&index).context(|| index.display().to_string())?;
    let index = index.trim().parse().ok().context(|| format!("{interface}: {index}"))?;
    let link = sys::bpf_attach(&program, index).context(failed("the interface takes no program"))?;
    // The program stays attached as long as the link is pinned, that is as long as this process exists, also
    // after exec.
    sys::bpf_pin(&link, &Path::new(FOLDER).join("link")).context(failed("the link has no place"))?;
    let (program, arguments) = command.split_first().context(|| "no command".to_string())?;
    Err(Failure::new(format!("{program}: {}", Command::new(program).args(arguments).exec())))
}

/// Returns the program's instructions: an IPv4 packet without options with a UDP datagram to this port is
/// redirected to the socket of its receive queue; anything else passes.
fn program(sockets: &OwnedFd, port: u16) -> Vec<u64> {
    /// Distances from each check to the last two instructions, which pass the packet.
    const PASS: [i16; 5] = [16, 14, 12, 10, 8];
    let checks: [(u8, i16, i32); 4] = [
        (LOAD_U16, 12, i32::from(u16::from_ne_bytes(0x0800u16.to_be_bytes()))),
        (LOAD_U8, 14, 0x45),
        (LOAD_U8, 23, 17),
        (LOAD_U16, 36, i32::from(u16::from_ne_bytes(port.to_be_bytes()))),
    ];
    let mut code = vec![
        // Start and end of the packet, from the context in R1.
        op(LOAD_U32, 2, 1, 0, 0),
        op(LOAD_U32, 3, 1, 4, 0),
        // The queue, before R1 is overwritten.
        op(LOAD_U32, 6, 1, 16, 0),
        op(MOVE, 4, 2, 0, 0),
        op(ADD_NUMBER, 4, 0, 0, 42),
        op(JUMP_GREATER, 4, 3, PASS[0] - 2, 0),
    ];
    for ((load, offset, wanted), pass) in checks.into_iter().zip(&PASS[1..]) {
        code.push(op(load, 5, 2, offset, 0));
        code.push(op(JUMP_NOT_EQUAL, 5, 0, pass - 2, wanted));
    }
    code.extend([
        op(LOAD_WIDE, 1, PSEUDO_MAP, 0, sockets.as_raw_fd()),
        0,
        op(MOVE, 2, 6, 0, 0),
        op(MOVE_NUMBER, 3, 0, 0, XDP_PASS),
        op(CALL, 0, 0, 0, REDIRECT_MAP),
        op(EXIT, 0, 0, 0, 0),
        op(MOVE_NUMBER, 0, 0, 0, XDP_PASS),
        op(EXIT, 0, 0, 0, 0),
    ]);
    code
}

/// Encodes an instruction in the kernel's format: operation, registers, offset and immediate.
fn op(code: u8, to: u8, from: u8, offset: i16, number: i32) -> u64 {
    let registers = if cfg!(target_endian = "big") { to << 4 | from } else { from << 4 | to };
    let [o0, o1] = offset.to_ne_bytes();
    let [n0, n1, n2, n3] = number.to_ne_bytes();
    u64::from_ne_bytes([code, registers, o0, o1, n0, n1, n2, n3])
}

const LOAD_U8: u8 = 0x71;
const LOAD_U16: u8 = 0x69;
const LOAD_U32: u8 = 0x61;
const LOAD_WIDE: u8 = 0x18;
const MOVE: u8 = 0xbf;
const MOVE_NUMBER: u8 = 0xb7;
const ADD_NUMBER: u8 = 0x07;
const JUMP_GREATER: u8 = 0x2d;
const JUMP_NOT_EQUAL: u8 = 0x56;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// Marks the immediate of a wide load as the descriptor of a map.
const PSEUDO_MAP: u8 = 1;
/// The helper `bpf_redirect_map`.
const REDIRECT_MAP: i32 = 51;
const XDP_PASS: i32 = 2;

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    /// Runs the program on a packet; returns whether it is redirected.
    fn redirects(code: &[u64], packet: &[u8]) -> bool {
        let mut at = 0usize;
        let mut registers = [0i64; 11];
        loop {
            let [code_byte, pair, o0, o1, n0, n1, n2, n3] = code[at].to_ne_bytes();
            let (to, from) = (usize::from(pair & 15), usize::from(pair >> 4));
            let offset = i64::from(i16::from_ne_bytes([o0, o1]));
            let number = i64::from(i32::from_ne_bytes([n0, n1, n2, n3]));
            let place = |register: i64| (register + offset) as usize;
            at += 1;
            let mut jump = |taken: bool| at = if taken { (at as i64 + offset) as usize } else { at };
            match code_byte {
                // The context: the packet begins at 0.
                LOAD_U32 => registers[to] = if offset == 4 { packet.len() as i64 } else { 0 },
                LOAD_U16 => {
                    let bytes = [packet[place(registers[from])], packet[place(registers[from]) + 1]];
                    registers[to] = i64::from(u16::from_ne_bytes(bytes));
                }
                LOAD_U8 => registers[to] = i64::from(packet[place(registers[from])]),
                MOVE => registers[to] = registers[from],
                MOVE_NUMBER => registers[to] = number,
                ADD_NUMBER => registers[to] += number,
                JUMP_GREATER => jump(registers[to] > registers[from]),
                JUMP_NOT_EQUAL => jump(registers[to] != number),
                LOAD_WIDE => at += 1,
                CALL => return number == i64::from(REDIRECT_MAP),
                EXIT => return false,
                other => panic!("instruction {other:#x}"),
            }
        }
    }

    #[test]
    fn only_datagrams_to_the_port_are_redirected() {
        let file = File::open("/dev/null").unwrap();
        let code = program(&OwnedFd::from(file), 25_413);
        let mut packet = vec![0; 60];
        packet[12..14].copy_from_slice(&[8, 0]);
        packet[14] = 0x45;
        packet[23] = 17;
        packet[36..38].copy_from_slice(&25_413u16.to_be_bytes());
        assert!(redirects(&code, &packet));
        for (at, what) in [(13, "another protocol"), (14, "options"), (23, "TCP"), (37, "another port")] {
            let mut other = packet.clone();
            other[at] ^= 1;
            assert!(!redirects(&code, &other), "{what}");
        }
        assert!(!redirects(&code, &packet[..41]), "too short");
        assert!(redirects(&code, &packet[..42]));
    }
}
