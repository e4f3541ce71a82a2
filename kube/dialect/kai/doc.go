// Package kai reads objects of the KAI scheduler's users, as of KAI v0.17: Queues, PodGroups and Topologies, and what its grouper
// makes of pods and their controllers. It is a dialect.Dialect. Facts are those of NVIDIA/KAI-Scheduler's APIs and documentation.
package kai
