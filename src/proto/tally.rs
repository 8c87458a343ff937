//! Counting: who said what, and whether that decides.

use core::fmt;

/// The most nodes one lock may be spread over.
///
/// Five is the usual number; beyond a handful, more nodes make a quorum slower and not safer.
pub const MAX_NODES: usize = 16;

/// One node, by its place in the configured list.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct NodeId(u8);

impl NodeId {
    /// The node at `index` of the list.
    ///
    /// # Panics
    /// If `index` is not below [`MAX_NODES`].
    pub const fn new(index: usize) -> Self {
        assert!(index < MAX_NODES, "node index out of range");
        #[allow(clippy::cast_possible_truncation)]
        Self(index as u8)
    }

    /// Place in the configured list, from 0.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A set of nodes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct NodeSet(u16);

impl NodeSet {
    /// No node.
    pub const EMPTY: Self = Self(0);

    /// The first `n` nodes: all of a cluster of `n`.
    pub const fn first(n: usize) -> Self {
        assert!(n <= MAX_NODES, "too many nodes");
        if n == MAX_NODES { Self(u16::MAX) } else { Self((1 << n) - 1) }
    }

    /// Just this node.
    pub const fn only(node: NodeId) -> Self {
        Self(1 << node.0)
    }

    /// Adds a node; says whether it is new.
    pub fn insert(&mut self, node: NodeId) -> bool {
        let new = !self.contains(node);
        self.0 |= 1 << node.0;
        new
    }

    /// Removes a node; says whether it was there.
    pub fn remove(&mut self, node: NodeId) -> bool {
        let was = self.contains(node);
        self.0 &= !(1 << node.0);
        was
    }

    /// Whether the node is in the set.
    pub const fn contains(self, node: NodeId) -> bool {
        self.0 & (1 << node.0) != 0
    }

    /// How many nodes are in the set.
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether no node is in the set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Nodes in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Nodes of this set that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Nodes in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// The nodes, in ascending order.
    pub fn iter(self) -> impl Iterator<Item = NodeId> {
        (0..MAX_NODES).map(NodeId::new).filter(move |&node| self.contains(node))
    }
}

impl FromIterator<NodeId> for NodeSet {
    fn from_iter<I: IntoIterator<Item = NodeId>>(nodes: I) -> Self {
        let mut set = Self::EMPTY;
        nodes.into_iter().for_each(|node| {
            set.insert(node);
        });
        set
    }
}

impl fmt::Display for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (i, node) in self.iter().enumerate() {
            write!(f, "{}{node}", if i == 0 { "" } else { "," })?;
        }
        f.write_str("}")
    }
}

impl fmt::Debug for NodeSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// How many of `nodes` nodes must agree: `floor(N/2) + 1`, the smallest number of which any two sets meet.
///
/// Derived, never configured (`R1`; Redis page, "the Redlock algorithm"). Of 1, 2, 3, 4, 5 nodes, 0, 0, 1, 1, 2 may fail.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Quorum {
    nodes: u8,
}

impl Quorum {
    /// The quorum of a cluster of `nodes` nodes.
    ///
    /// # Panics
    /// If `nodes` is zero or above [`MAX_NODES`].
    pub const fn of(nodes: usize) -> Self {
        assert!(nodes >= 1 && nodes <= MAX_NODES, "a lock needs 1 to 16 nodes");
        #[allow(clippy::cast_possible_truncation)]
        Self { nodes: nodes as u8 }
    }

    /// All nodes, `N`.
    pub const fn nodes(self) -> usize {
        self.nodes as usize
    }

    /// Nodes that must agree, `Q`.
    pub const fn needed(self) -> usize {
        self.nodes() / 2 + 1
    }

    /// Nodes that may fail without stopping the lock, `N - Q`.
    pub const fn spare(self) -> usize {
        self.nodes() - self.needed()
    }

    /// Every node of the cluster.
    pub const fn all(self) -> NodeSet {
        NodeSet::first(self.nodes())
    }

    /// Whether `yes` nodes for and `no` nodes against decide.
    ///
    /// Won as soon as Q agree, lost as soon as Q cannot agree any more; nodes that have not answered, or whose
    /// answer is unknown, are neither.
    pub const fn verdict(self, yes: usize, no: usize) -> Verdict {
        if yes >= self.needed() {
            Verdict::Won
        } else if no > self.spare() {
            Verdict::Lost
        } else {
            Verdict::Pending
        }
    }
}

/// What the answers so far decide.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Verdict {
    /// Both outcomes are still possible.
    Pending,
    /// A quorum agrees.
    Won,
    /// A quorum cannot be reached any more.
    Lost,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spare_nodes_of_small_clusters_are_exact() {
        // B17b: a majority formula that left a fraction needed 4 of 5 nodes, and could never lock with 1.
        let spare: Vec<_> = (1..=5).map(|n| Quorum::of(n).spare()).collect();
        assert_eq!(spare, [0, 0, 1, 1, 2]);
    }

    #[test]
    fn any_two_quorums_share_a_node_and_smaller_sets_need_not() {
        for n in 1..=MAX_NODES {
            let q = Quorum::of(n).needed();
            assert!(2 * q > n, "two quorums of {q} among {n} meet");
            assert!(2 * (q - 1) <= n, "{q} is the smallest such number among {n}");
        }
    }

    #[test]
    fn verdicts_agree_with_the_naive_count_for_every_small_input() {
        for n in 1..=MAX_NODES {
            let quorum = Quorum::of(n);
            for yes in 0..=n {
                for no in 0..=n - yes {
                    let open = n - yes - no;
                    // Naive: look at what the open answers could still do.
                    let can_win = yes + open >= quorum.needed();
                    let expected = match (yes >= quorum.needed(), can_win) {
                        (true, _) => Verdict::Won,
                        (false, false) => Verdict::Lost,
                        (false, true) => Verdict::Pending,
                    };
                    assert_eq!(quorum.verdict(yes, no), expected, "n={n} yes={yes} no={no}");
                }
            }
        }
    }

    #[test]
    fn a_set_of_nodes_behaves_as_a_set() {
        let mut set: NodeSet = [3, 0, 3].map(NodeId::new).into_iter().collect();
        assert_eq!((set.len(), set.to_string()), (2, "{0,3}".into()));
        assert!(set.remove(NodeId::new(3)) && !set.remove(NodeId::new(3)));
        assert_eq!(set, NodeSet::only(NodeId::new(0)));
        assert_eq!(NodeSet::first(MAX_NODES).len(), MAX_NODES);
        assert_eq!(NodeSet::first(3).without(set), [1, 2].map(NodeId::new).into_iter().collect());
    }
}
