package main

// exception is a case that should pass and does not.
type exception struct {
	key string // folder.test/case
	at  string // file:line in the folder
	why string
}

var exceptions = []exception{
	{"scheduler/filters.TestUnschedulablePodBecomesSchedulable/other_pod_gets_deleted", "filters_test.go:2466", "pods of the same second have their turn by name, which the API keeps; upstream's by arrival, which is lost with the process"},
	{"scheduler/filters.TestUnschedulablePodBecomesSchedulable/scheduled_pod_uses_read-write-once-pod_pvc", "filters_test.go:2571", claimsNotReady},
	{"scheduler/filters.TestNodeDeclaredFeaturesFilter/Feature_gate_disabled", "filters_test.go:3262", "switches the gate off in the stock scheduler alone; Berth has no switch for it"},
	{"scheduler/podgroup.TestPodGroupScheduling/gang_schedules_with_workload-aware_preemption_(TopologyAwareWorkloadScheduling_enabled:_false)", "podgroup_test.go:458", growsInRoom},
	{"scheduler/podgroup.TestPodGroupScheduling/gang_schedules_with_workload-aware_preemption_(TopologyAwareWorkloadScheduling_enabled:_true)", "podgroup_test.go:458", growsInRoom},
	{"scheduler/podgroup.TestPodGroupSchedulingWithReadWriteOncePodPVC/two_pods_sharing_a_ReadWriteOncePod_PVC_keep_the_group_unschedulable", "podgroup_pvc_test.go:101", claimsNotReady},
	{"volumescheduling.TestVolumeBinding", "volume_binding_test.go:252", claimsNotReady},
	{"volumescheduling.TestVolumeBindingRescheduling", "volume_binding_test.go:374", claimsNotReady},
	{"volumescheduling.TestPVAffinityConflict", "volume_binding_test.go:689", "asserts upstream's words in the condition; ours count the nodes that each rule excludes"},
	{tas + "GangPolicy/gang_schedules_on_a_single_rack,_choosing_placement_with_highest_allocation_percentage_(default_placement_scoring_algorithm)_with_pre-existing_pods_in_cluster_(CPG:_false)", "tas_test.go:405", otherRack},
	{tas + "GangPolicy/gang_schedules_on_a_single_rack,_choosing_placement_with_highest_allocation_percentage_(default_placement_scoring_algorithm)_with_pre-existing_pods_in_cluster_(CPG:_true)", "tas_test.go:405", otherRack},
	{misc + fewerViolations + "true,_ClearingNominatedNodeNameAfterBinding:_true)", "miscpreemption_test.go:724", leastLost},
	{misc + fewerViolations + "true,_ClearingNominatedNodeNameAfterBinding:_false)", "miscpreemption_test.go:724", leastLost},
	{misc + fewerViolations + "false,_ClearingNominatedNodeNameAfterBinding:_true)", "miscpreemption_test.go:724", leastLost},
	{misc + fewerViolations + "false,_ClearingNominatedNodeNameAfterBinding:_false)", "miscpreemption_test.go:724", leastLost},
	{"scheduler/preemption/podgroup.TestPodGroupPreemptionStatus", "podgrouppreemption_test.go:1376", "a gang for which room is made waits with reason MakingRoom: no autoscaler should act; and the test asserts upstream's words"},
	{tas + "GangPolicy/gang_uses_pod_group_preemption_when_resources_are_consumed_by_lower_priority_existing_pods_(CPG:_false)", "tas_test.go:209", fewestVictims},
	{tas + "GangPolicy/gang_uses_pod_group_preemption_when_resources_are_consumed_by_lower_priority_existing_pods_(CPG:_true)", "tas_test.go:209", fewestVictims},
	{tas + "GangPolicy/gang_uses_preemption_and_schedules_on_a_single_rack,_choosing_placement_with_the_highest_score_(CPG:_false)", "tas_test.go:249", otherVictim},
	{tas + "GangPolicy/gang_uses_preemption_and_schedules_on_a_single_rack,_choosing_placement_with_the_highest_score_(CPG:_true)", "tas_test.go:249", otherVictim},
	{tas + "GangPolicy/gang_uses_preemption_and_schedules_on_a_single_rack,_choosing_placement_with_highest_allocation_percentage_with_pre-existing_pods_in_cluster_(CPG:_false)", "tas_test.go:302", otherVictim},
	{tas + "GangPolicy/gang_uses_preemption_and_schedules_on_a_single_rack,_choosing_placement_with_highest_allocation_percentage_with_pre-existing_pods_in_cluster_(CPG:_true)", "tas_test.go:302", otherVictim},
	{tas + "GangPolicy/gang_with_minCount_<_pod_count_schedules_on_a_single_rack_without_preemption,_additional_pod_triggers_preemption_on_the_same_rack_(CPG:_false)", "tas_test.go:792", growsInRoom},
	{tas + "GangPolicy/gang_with_minCount_<_pod_count_schedules_on_a_single_rack_without_preemption,_additional_pod_triggers_preemption_on_the_same_rack_(CPG:_true)", "tas_test.go:792", growsInRoom},
	{"scheduler/podgroup.TestCPGScheduling/TestCPGDynamicChildAddition", "cpg_test.go:620", "a group with too few groups below it waits with reason GangIncomplete: Unschedulable is for where an autoscaler should act"},
	{"scheduler/podgroup/topology_aware_scheduling.TestCPGTopologyAwareScheduling/parent_CPG_has_topology_constraints,_preexisting_pod_group_pods_are_in_conflicting_domains_across_pod_groups,_fails_to_schedule_any_pod", "cpg_tas_test.go:486", "asserts the reason SchedulerError for a gang that others have bound in two domains; the members that wait belong where most of it is"},
	{"dra/default.TestDRA/default/FilterTimeout/enabled", "../core.go:267", filterTimeout},
	{"dra/all.TestDRA/all/FilterTimeout/enabled", "../core.go:267", filterTimeout},
}

// What the cases of preemption have in common.
const (
	misc            = "scheduler/preemption/misc."
	fewerViolations = "TestPDBInPreemption/A_node_with_fewer_PDB_violating_pods_is_preferred_for_preemption_(Async_preemption_enabled:_"
)

// tas is what the tests of topology have in common.
const tas = "scheduler/podgroup/topology_aware_scheduling.TestTopologyAwareSchedulingWith"

// Reasons that several cases share.
const (
	filterTimeout  = "sets a time limit in the configuration of the stock scheduler's plugin; Berth bounds its search by steps"
	claimsNotReady = "a pod whose claims are missing, unbound or in use waits with reason ClaimsNotReady: Unschedulable is for where an autoscaler should act"
	leastLost      = "of the sets of victims within all budgets ours is the one whose work costs least to lose, here two pods; upstream's the one whose highest priority is lowest, here three"
	fewestVictims  = "of two victims one makes room enough, and only that one is evicted; upstream evicts both"
	otherVictim    = "of two racks that one victim frees ours is another than upstream's, which is the one with the higher score"
	growsInRoom    = "a member above the minimum starts where there is room, and nobody is evicted for it; upstream's evicts"
	otherRack      = "of the racks that hold the gang ours is the one with the least room to spare, in pods; upstream's the one with the largest share of cpu and memory taken"
)
