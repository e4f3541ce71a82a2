package l2

import "github.com/berth-dev/berth/diagnose/check"

// Checks are the causes of this layer. Order does not matter: package diagnose sorts them by stage and rank.
var Checks = []*check.Check{
	&autoscalerTemplateWithoutGpuCheck,
	&deviceNotAdvertisedCheck,
	&devicePluginMissingCheck,
	&devicePluginNotRegisteredCheck,
	&deviceTaintedCheck,
	&draDriverSilentCheck,
	&driverNotReadyCheck,
	&driverUpgradeCheck,
	&gpuOperatorNotReadyCheck,
	&gpuUnhealthyCheck,
	&kubeletRefusedPodCheck,
	&kubeletRestartingCheck,
	&machineNeverRegisteredCheck,
	&machineNotLaunchedCheck,
	&migReconfiguringCheck,
	&migShapeMismatchCheck,
	&noCompatiblePoolCheck,
	&nodeBeingRemovedCheck,
	&nodeClassNotReadyCheck,
	&nodeComingCheck,
	&nodeCordonedCheck,
	&nodeLostCheck,
	&nodeNotReadyCheck,
	&nodePressureCheck,
	&nodeQuarantinedCheck,
	&nodeUnlikeItsPoolCheck,
	&podEvictedCheck,
	&poolAtMaxCheck,
	&poolUnlikeItsWorkCheck,
	&poolWithoutNodesCheck,
	&runtimeHandlerMissingCheck,
	&startupTaintStaysCheck,
}
