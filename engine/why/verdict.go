package why

import "slices"

// VerdictOf is what the gates of a workload that waits amount to. The first decides, because it is the one that binds. Where only
// nodes are in the way, nothing is proved if the search for one of several GPU models ended at its budget.
func VerdictOf(gates []Gate) Verdict {
	switch gates[0].Cause {
	case InvalidObject:
		return Invalid
	case UnsupportedFeature:
		return Unsupported
	case GangIncomplete, GangMissing, GroupMissing, QueueMissing, QueueForbidden, QueueStopped, WorkloadHeld, OverQueueLimit, ExceedsQueueMaximum,
		OverUserLimit, QueueBusy, OverBudget, OverQuota, NotLent, MakingRoom, KeptForPromise, KeptByBooking, BehindTheHead:
		return Blocked
	}
	if slices.ContainsFunc(gates, func(g Gate) bool { return g.Cause == SearchBudget }) {
		return NotFound
	}
	return Impossible
}
