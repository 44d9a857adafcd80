//! Borrows the small Internet of `conformance`: that program makes its zones and runs their servers in a
//! network namespace of its own. Resolvers are joined to it by a pair of interfaces, so that all their
//! packets can be counted at the far end.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::failure::{Context, Failure, Result};
use crate::measure;
use crate::namespaces::{self, Link, Pair};
use crate::programs::find;
use crate::queries;
use crate::resolvers::Anchor;
use crate::servers::Kind;
use crate::session::Plan;
use crate::sys;
use crate::workloads::{ATTACK_RATE, Workload};

/// A running small Internet; ends when dropped.
pub(crate) struct Internet {
    child: Child,
    /// If it is closed, the program ends.
    _input: Option<ChildStdin>,
    namespace: File,
    path: String,
    /// Address of the root server.
    pub(crate) root: Ipv4Addr,
    /// Trust anchor for the root.
    pub(crate) anchor: Anchor,
    questions: BTreeMap<String, PathBuf>,
}

/// Traffic counts of its servers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Asked {
    /// Datagrams received, including those for addresses without a server.
    pub(crate) datagrams: u64,
    /// TCP connections accepted.
    pub(crate) connections: u64,
}

impl Internet {
    /// Fails if rights or programs are missing.
    pub(crate) fn is_possible(plan: &Plan) -> Result<()> {
        for program in ["dnssec-keygen", "dnssec-signzone", "named-compilezone"] {
            find(Path::new(program)).context(|| format!("{program} is not installed"))?;
        }
        for kind in [Kind::Nomen, Kind::Nsd, Kind::Knot, Kind::Bind] {
            find(&plan.programs.of(kind)).context(|| format!("{} is not installed", kind.name()))?;
        }
        find(&plan.conformance).context(|| format!("there is no {}", plan.conformance.display()))?;
        Pair::create().map(drop)
    }

    /// Makes the zones for a workload, and waits until they are served.
    pub(crate) fn lend(plan: &Plan, workload: Workload) -> Result<Internet> {
        let folder = plan.work.join("run").join("internet");
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder)?;
        let (which, count) = match workload {
            Workload::Attacks => {
                ("--attacks", (2.0 * ATTACK_RATE as f64 * plan.attack_seconds()) as u64 + 100)
            }
            _ => ("--internet", plan.sizes.cold),
        };
        eprintln!("making the small Internet");
        let log = File::create(folder.join("log"))?;
        // The benchmark itself may be bound to one CPU by now.
        let all = format!("0-{}", measure::cpus() - 1);
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--", "taskset", "-c", &all])
            .arg(&plan.conformance)
            .args([which, "--lend", "--queries", &count.to_string(), "--seed", &plan.seed.to_string()])
            .arg("--server")
            .arg(format!("nomen={}", plan.programs.nomen.display()))
            .arg("--work")
            .arg(&folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .process_group(0)
            .spawn()
            .context(|| plan.conformance.display().to_string())?;
        let said = said(&mut child, plan.patience);
        let told = said.and_then(|said| Told::read(&said));
        let opened = told.and_then(|told| Ok((File::open(&told.namespace)?, told)));
        let (namespace, told) = match opened {
            Ok(opened) => opened,
            Err(failure) => {
                end(&mut child);
                let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
                return Err(Failure::new(format!("the small Internet: {failure} {}", log.trim())));
            }
        };
        let _input = child.stdin.take();
        let Told { namespace: path, root, anchor, questions } = told;
        let internet = Internet { child, _input, namespace, path, root, anchor, questions };
        // Zones are signed on all CPUs, but served on the one CPU that is not measured.
        for thread in measure::threads(&measure::processes(internet.child.id())) {
            sys::pin(thread, plan.upstream_cpu)?;
        }
        Ok(internet)
    }

    /// Links the calling thread's namespace to it.
    pub(crate) fn join(&self) -> Result<Link> {
        Link::create(&self.namespace, &self.path)
    }

    /// Returns the traffic counts so far.
    pub(crate) fn asked(&self) -> Result<Asked> {
        let path = "/proc/thread-self/net/snmp";
        let text = namespaces::inside(&self.namespace, || Ok(fs::read_to_string(path)?))?;
        Asked::read(&text).context(|| format!("{path} has no such figures"))
    }

    /// Returns the file of a list of questions.
    pub(crate) fn list(&self, name: &str) -> Result<&Path> {
        let list = self.questions.get(name).map(PathBuf::as_path);
        list.context(|| format!("the small Internet has no questions called {name}"))
    }

    /// Returns some of the questions on which all servers must agree: not those about broken zones.
    pub(crate) fn sample(&self, workload: Workload, count: usize) -> Result<Vec<Vec<u8>>> {
        let names: &[&str] =
            if workload == Workload::Attacks { &["benign"] } else { &["unsigned", "signed"] };
        let of = |name: &&str| queries::read(self.list(name)?, count.div_ceil(names.len()), 1);
        Ok(names.iter().map(of).collect::<Result<Vec<_>>>()?.concat())
    }
}

impl Drop for Internet {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn end(child: &mut Child) {
    sys::kill_group(child.id());
    let _ = child.wait();
}

/// Returns the lines that the program prints before the line `ready`.
fn said(child: &mut Child, patience: Duration) -> Result<Vec<String>> {
    let output = child.stdout.take().context(|| "no output".to_string())?;
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        BufReader::new(output).lines().map_while(|line| line.ok()).try_for_each(|line| sender.send(line))
    });
    let (mut said, end) = (Vec::new(), Instant::now() + patience);
    loop {
        match receiver.recv_timeout(Duration::from_millis(100)) {
            Ok(line) if line == "ready" => return Ok(said),
            Ok(line) => said.push(line),
            Err(RecvTimeoutError::Disconnected) => return Err(Failure::new("it ended at once:")),
            Err(RecvTimeoutError::Timeout) if sys::interrupted() => return Err(Failure::new("interrupted")),
            Err(RecvTimeoutError::Timeout) if Instant::now() > end => {
                return Err(Failure::new("took too long"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// Contents of the lines that the program prints.
struct Told {
    namespace: String,
    root: Ipv4Addr,
    anchor: Anchor,
    questions: BTreeMap<String, PathBuf>,
}

impl Told {
    fn read(lines: &[String]) -> Result<Told> {
        let of = |word: &'static str| {
            lines.iter().filter_map(move |line| line.strip_prefix(word)?.strip_prefix(' '))
        };
        let one = |word| of(word).next().context(|| format!("it does not say its {word}"));
        let list = |text: &str| {
            let mut words = text.splitn(3, ' ');
            let name = words.next()?.to_string();
            Some((name, PathBuf::from(words.nth(1)?)))
        };
        Ok(Told {
            namespace: one("namespace")?.to_string(),
            root: one("root")?.parse().context(|| "its root".to_string())?,
            anchor: Anchor { zone: ".".to_string(), ds: one("anchor")?.to_string() },
            questions: of("questions").filter_map(list).collect(),
        })
    }
}

impl Asked {
    /// Reads the counts from the kernel's statistics of a namespace.
    fn read(text: &str) -> Option<Asked> {
        let value = |protocol: &str, name: &str| -> Option<u64> {
            let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol)?.strip_prefix(": "));
            let at = lines.next()?.split(' ').position(|word| word == name)?;
            lines.next()?.split(' ').nth(at)?.parse().ok()
        };
        let udp = |name: &str| value("Udp", name);
        Some(Asked {
            datagrams: udp("InDatagrams")? + udp("NoPorts")? + udp("InErrors")?,
            connections: value("Tcp", "PassiveOpens")?,
        })
    }

    /// Returns the difference from earlier counts.
    pub(crate) fn since(self, before: Asked) -> Asked {
        Asked {
            datagrams: self.datagrams.saturating_sub(before.datagrams),
            connections: self.connections.saturating_sub(before.connections),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_counts_is_read() {
        let text = "Ip: Forwarding InReceives\nIp: 1 99\nTcp: ActiveOpens PassiveOpens CurrEstab\n\
                    Tcp: 7 8 9\n\
                    Udp: InDatagrams NoPorts InErrors OutDatagrams\nUdp: 100 20 3 77\nUdpLite: InDatagrams\n\
                    UdpLite: 5\n";
        let asked = Asked::read(text).unwrap();
        assert_eq!(asked, Asked { datagrams: 123, connections: 8 });
        assert_eq!(
            asked.since(Asked { datagrams: 23, connections: 9 }),
            Asked { datagrams: 100, connections: 0 }
        );
        assert_eq!(Asked::read("Tcp: PassiveOpens\nTcp: 8\n"), None);
    }

    #[test]
    fn what_is_lent_is_told_line_by_line() {
        let lines = |text: &str| text.lines().map(String::from).collect::<Vec<_>>();
        let whole =
            "namespace /proc/1/fd/3\nroot 198.18.1.1\nanchor 1 8 2 ABCD\nquestions signed 5 /tmp/a b\n";
        let told = Told::read(&lines(whole)).unwrap();
        assert_eq!((told.namespace.as_str(), told.root), ("/proc/1/fd/3", [198, 18, 1, 1].into()));
        assert_eq!(told.anchor.ds, "1 8 2 ABCD");
        assert_eq!(told.questions["signed"], Path::new("/tmp/a b"));
        for word in ["namespace", "root", "anchor"] {
            let without: Vec<String> =
                lines(whole).into_iter().filter(|line| !line.starts_with(word)).collect();
            assert!(Told::read(&without).err().unwrap().to_string().contains(word));
        }
    }
}
