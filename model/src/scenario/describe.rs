//! What a scenario assumes, and how far it looks, in words.

use redfence::proto::session::Mode;

use crate::world::{
    Economy, Fault, Guard, Hint, Job, Owners, Rejoin, Settings, Time, UNLIMITED, Wiring, Work,
};

/// What is assumed, by name.
pub fn assumptions(settings: &Settings) -> Vec<(&'static str, String)> {
    let mut list = vec![
        (
            "protocol",
            match settings.mode {
                Mode::Fenced => "fenced",
                Mode::Classic => "classic",
            }
            .into(),
        ),
        (
            "time",
            match settings.time {
                Time::Untimed => "none: a key may end at any moment".into(),
                Time::Timed { ttl, margin, fast, slow } => {
                    let drift = match (fast, slow) {
                        (0, 0) => "exact clocks".into(),
                        _ => {
                            format!("node clocks up to {fast} fast, client clocks up to {slow} slow, per TTL")
                        }
                    };
                    format!("TTL {ttl}, margin {margin}, {drift}")
                }
            },
        ),
        (
            "resource",
            match settings.work {
                Work::Nothing => "not looked at",
                Work::Update(Guard::Open) => "unfenced",
                Work::Update(Guard::Claim) => "writes only from whoever claimed it last, by a random value",
                Work::Update(Guard::Writes) => "fenced on writes only",
                Work::Update(Guard::ReadsAndWrites) => "fenced on reads and writes",
            }
            .into(),
        ),
    ];
    let faults: Vec<String> = Fault::ALL
        .iter()
        .zip(settings.faults.counts())
        .filter(|(_, count)| *count > 0)
        .map(|(fault, count)| match count {
            UNLIMITED => format!("{}: any number", fault.name()),
            _ => format!("{}: {count}", fault.name()),
        })
        .collect();
    list.push(("faults", if faults.is_empty() { "none".into() } else { faults.join(", ") }));
    match settings.hint {
        Hint::Best => {}
        Hint::None => list.push(("hint", "none".into())),
        Hint::Any(most) => list.push(("hint", format!("any up to {most}"))),
    }
    match settings.rejoin {
        Rejoin::AsItIs => {}
        Rejoin::AsIfNew => list.push(("rejoin", "a wiped node votes at once, as if new".into())),
        Rejoin::AfterSilence(ticks) => {
            list.push(("rejoin", format!("a wiped node is silent for {ticks} ticks")))
        }
    }
    if settings.owners == Owners::PerClient {
        list.push(("owner", "one for each client, for all its attempts".into()));
    }
    if !settings.operators.is_empty() {
        let job = |job: &Job| match job {
            Job::Start { floor } => format!("an automatic start from {floor}"),
            Job::Init { epoch, floor } => format!("a start into epoch {epoch} from {floor}"),
            Job::Readmit { draw } => format!("a re-admission that draws {draw}"),
        };
        let jobs = settings.operators.iter().map(job).collect::<Vec<_>>().join(", ");
        let order = match (settings.operators.len(), settings.overlap) {
            (1, _) => "",
            (_, true) => "; at the same time",
            (_, false) => "; one after the other",
        };
        let looks =
            if settings.look_first { "; each is a client's own look before its first attempt" } else { "" };
        list.push(("operators", jobs + order + looks));
    }
    match settings.wiring {
        Wiring::Straight => {}
        Wiring::OneTwice => list.push(("nodes", "two of the addresses are one node's".into())),
        Wiring::OwnLists => {
            list.push(("nodes", "each client has its own list of three; they share one".into()))
        }
    }
    if settings.two_steps {
        list.push(("set", "key first, TTL in a second step".into()));
    }
    list
}

/// How far it looks, by name.
pub fn bounds(settings: &Settings) -> Vec<(&'static str, String)> {
    let numbers = settings.numbers[..settings.nodes].iter().map(u8::to_string).collect::<Vec<_>>().join(",");
    vec![
        ("nodes", settings.nodes.to_string()),
        ("clients", settings.clients.to_string()),
        ("attempts_per_client", settings.attempts.to_string()),
        ("numbers", numbers),
        (
            "left_out",
            match settings.economy {
                Economy::Full => "nothing",
                Economy::Leave => "what a client does after its last attempt",
                Economy::LoseReleases => {
                    "what a client does after its last attempt; releases (a key may end anyway)"
                }
                Economy::Terse => {
                    "what a client does after its last attempt; releases; refused grants; when a key ends, where no request meets it"
                }
            }
            .into(),
        ),
    ]
}
