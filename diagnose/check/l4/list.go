package l4

import "github.com/berth-dev/berth/diagnose/check"

// Checks are the causes of this layer. Order does not matter: package diagnose sorts them by stage and rank.
var Checks = []*check.Check{
	&claimPrepareFailedCheck,
	&configMissingCheck,
	&containerCreateErrorCheck,
	&crashLoopCheck,
	&cronjobNeverDueCheck,
	&cronjobSuspendedCheck,
	&cudaNewerThanDriverCheck,
	&imagePullCheck,
	&jobGaveUpCheck,
	&numaMisfitCheck,
	&podStuckTerminatingCheck,
	&readinessNotMetCheck,
	&rolloutPausedCheck,
	&runningWithoutProgressCheck,
	&scaledToZeroCheck,
	&volumeMountFailedCheck,
	&waitingForPeerCheck,
	&worldSizeMismatchCheck,
}
