package main

// exception is a case that should pass and does not.
type exception struct {
	key string // folder.test/case
	at  string // file:line in the folder
	why string
}

var exceptions = []exception{
	{"volumescheduling.TestVolumeBinding", "volume_binding_test.go:252", claimsNotReady},
	{"volumescheduling.TestVolumeBindingRescheduling", "volume_binding_test.go:374", claimsNotReady},
	{"volumescheduling.TestPVAffinityConflict", "volume_binding_test.go:689", "asserts upstream's words in the condition; ours count the nodes that each rule excludes"},
	{tas + "GangPolicy/gang_schedules_on_a_single_rack,_choosing_placement_with_highest_allocation_percentage_(default_placement_scoring_algorithm)_with_pre-existing_pods_in_cluster_(CPG:_false)", "tas_test.go:405", otherRack},
	{tas + "GangPolicy/gang_schedules_on_a_single_rack,_choosing_placement_with_highest_allocation_percentage_(default_placement_scoring_algorithm)_with_pre-existing_pods_in_cluster_(CPG:_true)", "tas_test.go:405", otherRack},
}

// tas is what the tests of topology have in common.
const tas = "scheduler/podgroup/topology_aware_scheduling.TestTopologyAwareSchedulingWith"

// Reasons that several cases share.
const (
	claimsNotReady = "a pod whose claims are missing or unbound waits with reason ClaimsNotReady: Unschedulable is for where an autoscaler should act"
	otherRack      = "of the racks that hold the gang ours is the one with the least room to spare, in pods; upstream's the one with the largest share of cpu and memory taken"
)
