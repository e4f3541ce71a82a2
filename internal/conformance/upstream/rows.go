package main

// test is one test function of upstream and the row of the checklist that it stands for.
type test struct {
	row      int
	semantic string
	dir      string // below test/integration
	name     string
	at       string // file:line in the folder
}

func (t test) key() string { return t.dir + "." + t.name }

// tests are those that assert through the API alone and are about what Berth does.
var tests = []test{
	{1, "schedules pods of its own schedulerName only", "scheduler", "TestMultipleSchedulers", "scheduler_test.go:180"},
	{4, "a cordoned node is excluded; uncordoning wakes pods", "scheduler", "TestUnschedulableNodes", "scheduler_test.go:55"},
	{5, "new and changed nodes wake pods", "scheduler", "TestNodeEvents", "scheduler_test.go:549"},
	{6, "a pod that could not run runs once something changed", "scheduler/filters", "TestUnschedulablePodBecomesSchedulable", "filters_test.go:2421"},
	{7, "taints and tolerations", "scheduler/filters", "TestTaintTolerationFilter", "filters_test.go:1408"},
	{8, "tolerations that compare numbers", "scheduler", "TestTaintTolerationGtLtIntegration", "scheduler_test.go:1040"},
	{9, "taints by node condition", "scheduler/taint", "TestTaintNodeByCondition", "taint_test.go:63"},
	{12, "required node affinity", "scheduler/filters", "TestNodeAffinityFilter", "filters_test.go:3010"},
	{15, "requests against allocatable", "scheduler/filters", "TestNodeResourcesFilter", "filters_test.go:2911"},
	{15, "requests against allocatable", "scheduler", "TestAllocatable", "scheduler_test.go:350"},
	{23, "host ports", "scheduler/filters", "TestNodePortsFilter", "filters_test.go:2294"},
	{23, "host ports", "scheduler", "TestHostPorts", "scheduler_test.go:644"},
	{24, "inter-pod affinity and anti-affinity (with 25: of pods that run)", "scheduler/filters", "TestInterPodAffinity", "filters_test.go:75"},
	{26, "inter-pod affinity by namespace selectors", "scheduler/filters", "TestInterPodAffinityWithNamespaceSelector", "filters_test.go:1212"},
	{27, "matchLabelKeys of inter-pod affinity", "scheduler/filters", "TestPodAffinityMatchLabelKeyEnablement", "filters_test.go:2774"},
	{29, "topology spread", "scheduler/filters", "TestPodTopologySpreadFilter", "filters_test.go:1817"},
	{32, "volumes: affinity, binding on first use, provisioning", "volumescheduling", "TestVolumeBinding", "volume_binding_test.go:97"},
	{32, "volumes: affinity, binding on first use, provisioning", "volumescheduling", "TestVolumeBindingRescheduling", "volume_binding_test.go:280"},
	{32, "volumes: affinity, binding on first use, provisioning", "volumescheduling", "TestPVAffinityConflict", "volume_binding_test.go:640"},
	{32, "volumes: affinity, binding on first use, provisioning", "volumescheduling", "TestVolumeProvision", "volume_binding_test.go:699"},
	{32, "volumes: affinity, binding on first use, provisioning", "volumescheduling", "TestRescheduleProvisioning", "volume_binding_test.go:989"},
	{32, "room that storage drivers report", "volumescheduling", "TestCapacity", "volume_binding_test.go:847"},
	{35, "a volume for one pod, taken from a lower priority", "scheduler/preemption/misc", "TestReadWriteOncePodPreemption", "miscpreemption_test.go:891"},
	{39, "features that nodes declare", "scheduler/filters", "TestNodeDeclaredFeaturesFilter", "filters_test.go:3221"},
	{42, "priority first, then arrival", "scheduler/preemption/misc", "TestPreemptionStarvation", "miscpreemption_test.go:359"},
	{49, "what the watches bring is seen", "scheduler", "TestSchedulerInformers", "scheduler_test.go:422"},
	{62, "pods that preempt nobody", "scheduler/preemption/misc", "TestNonPreemption", "miscpreemption_test.go:71"},
	{62, "preemption that is switched off", "scheduler/preemption/misc", "TestDisablePreemption", "miscpreemption_test.go:154"},
	{63, "disruption budgets, and the node that costs least", "scheduler/preemption/misc", "TestPDBInPreemption", "miscpreemption_test.go:622"},
	{67, "one that preempts, and newcomers", "scheduler/preemption/misc", "TestPreemptionRaces", "miscpreemption_test.go:471"},
	{70, "priorities resolved by admission", "scheduler/preemption/misc", "TestPodPriorityResolution", "miscpreemption_test.go:237"},
	{72, "gangs: quorum, all or nothing, extra members, a minimum that changes (with 73: two gangs do not deadlock)", "scheduler/podgroup", "TestPodGroupScheduling", "podgroup_test.go:46"},
	{75, "gangs with volumes that one pod may use", "scheduler/podgroup", "TestPodGroupSchedulingWithReadWriteOncePodPVC", "podgroup_pvc_test.go:85"},
	{75, "gangs whose members must be apart", "scheduler/podgroup", "TestPodGroupSchedulingWithPodAntiAffinity", "podgroup_affinity_test.go:56"},
	{76, "a gang's condition when it preempts", "scheduler/preemption/podgroup", "TestPodGroupPreemptionStatus", "podgrouppreemption_test.go:1312"},
	{81, "gangs in one topology domain", "scheduler/podgroup/topology_aware_scheduling", "TestTopologyAwareSchedulingWithGangPolicy", "tas_test.go:87"},
	{81, "gangs in one topology domain", "scheduler/podgroup/topology_aware_scheduling", "TestTopologyAwareSchedulingWithBasicPolicy", "tas_test.go:919"},
	{83, "groups of groups start together", "scheduler/podgroup", "TestCPGScheduling", "cpg_test.go:77"},
	{83, "groups of groups in one topology domain", "scheduler/podgroup/topology_aware_scheduling", "TestCPGTopologyAwareScheduling", "cpg_tas_test.go:104"},
	{86, "claims, their devices and classes, with what Kubernetes guarantees (with 87 to 97)", "dra/ga", "TestDRA", "ga_test.go:25"},
	{86, "the same, with the gates as a cluster has them by default", "dra/default", "TestDRA", "default_test.go:25"},
	{86, "the same, with every gate on, alpha ones too", "dra/all", "TestDRA", "all_test.go:25"},
}

// deferred are cases of these tests that are about what does not exist yet. They are not run, and not counted.
type deferred struct {
	dir, test string
	name      string // pattern of the case's name
	why       string
}

var later = []deferred{
	{"dra/ga", "TestDRA", ".*/EvictCluster", noScheduler},
	{"dra/default", "TestDRA", ".*/EvictCluster", noScheduler},
	{"dra/all", "TestDRA", ".*/EvictCluster", noScheduler},
	{"dra/all", "TestDRA", ".*/DRANodeAllocatableResources", "devices that take cpu and memory of their node (an alpha gate) are given to nobody, see below"},
}

const noScheduler = "these start no scheduler: a controller of upstream's evicts 1,000 pods"

// absent are the rows of class A of which nothing exists yet.
var absent = []struct {
	rows, semantic, upstream, why string
}{
	{"19, 41, 58, 100", "what the API server alone decides", "pods/pods_test.go:52,1208,1808; quota/quota_test.go:62", "these tests start no scheduler: they say nothing about one"},
}
