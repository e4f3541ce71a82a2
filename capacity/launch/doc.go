// Package launch decides which machines to launch, keep, drain and release. It has no clock, no client and no memory: the world
// goes in as a value, and decisions come out, each with its reason. kube/provision carries them out.
//
// What waits is planned by the engine as if more nodes were there, by the policy that the scheduler has. Nodes are offered to it in
// rounds, what costs least first: machines of reservations before those on demand before spot machines, and each zone alone before
// several together. What a round starts is settled before the next. So a gang gets all its machines or none, as its topology has it,
// and nobody gets a machine whom a quota or a limit would keep waiting.
//
// A machine that exists or is on its way is a node of every plan. That is why nothing is launched twice for one need: the need of a
// gang is what no such machine meets.
package launch
