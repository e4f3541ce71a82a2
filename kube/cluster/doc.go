// Package cluster reads a Kubernetes cluster for the engine: objects in, engine changes out. It knows what follows from
// several objects at once, where kube/convert knows what one object says: which pods are a gang and how many will come,
// which queue pays, which terms were decided, which nodes a pod's volumes allow, which budgets cover it.
//
// It has no client, no goroutine and no clock but the one that it is given. The watcher of a cluster calls Set and Remove for
// every object (objects.go) and Settle before every plan; what is to be told to people goes to a Listener, and requests to the API
// server are somebody else's. kube/scheduler calls it live; a Model, which puts an engine behind it, answers what-ifs for
// diagnose.
//
// # Subjects
//
// A Feed is one lock around subjects that own their state. A subject that depends on others holds pointers to them and
// only reads them; what it marks as stale is worked out by Settle, once, however much changed.
//
//	subject       owns                                         derived from                        stale when
//	nodes         nodes, and as last given                     -                                   -
//	members       pods, by key and by gang                     -                                   -
//	owners        controllers, their pods, their gangs         -                                   -
//	gangs         PodGroups, descriptions as last given        PodGroup, members, owners, queue    one of these changes (redo)
//	volumes       internal/volumes says                        -                                   as it says (Waiting, Recount)
//	preparing     starts whose claims are being seen to        -                                   -
//	tenancy       internal/tenancy says                        -                                   as it says (Take)
//	admissions    terms of pods, which workloads to decide on  members, tenancy, gangs             one of these changes (look, all)
//	budgets       disruption budgets                           -                                   -
//	              budgets of a pod                             budgets, pod labels                 a selector changes (stale)
//	rules         internal/rules says                          -                                   as it says (Take)
//	expected      Jobs, the pods that suspended ones will have  Jobs, members, dialects             one of these changes (look)
//	devices       resource claims, device classes              -                                   -
//	              devices, and what is asked of them           internal/inventory says             as it says (Take)
//	              offers of a node, what a pod's claims ask     devices, claims, members            one of these changes (stale, pods)
//	tiers         levels that stand for tiers                  dialects' topologies, nodes' labels  one of these changes (Again)
//	extended      device classes, pods that wait for resources node's allocatable                  a resource is had otherwise (changed)
//	bookings      booked nodes as last given                   queues, nodes' labels and ends      one of these changes (stale)
//	arrivals      nodes that came lately, and for whom         nodes, members that need nodes      a node that came lately changes (stale)
//	refusals      nodes that refused an owner's pods           told by the binder                  their time is up
//	runtimes      run times of what succeeded                  members that ended                  never: newer ones displace older
//	timers        what is to be done at a time                 -                                   -
//	output        versions                                     resource versions seen              -
//
// # Cost
//
// A Set costs a conversion and a comparison with what was given last: a heartbeat, or a status that is not read, puts no
// change. Settle costs as much as is stale: a described gang its members, a pod with claims the nodes, a changed
// namespace selector or payer all pods. QueueUsages and FindWaiting look at all pods; the other questions at one workload.
package cluster
