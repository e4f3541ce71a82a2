// Package record keeps the decision log: what the scheduler was told and when it planned, so that any past
// plan can be made again, byte for byte. A Writer records the cycles of a live scheduler; a Log reads them
// back and runs the engine over them.
//
// It relies on the engine being a function of what it was told: plans are not stored, only a digest of each
// to hold the replay to. It decides nothing, knows no Kubernetes, and never keeps the scheduler waiting or
// from going on: a disk that is full costs a gap in the log. kube/scheduler writes it; cli reads it.
//
// A log is a folder of segments, each a zstd stream of JSON lines (line.go; docs/replay.md describes them).
// A segment stands alone: it begins with everything that is known at its start.
package record
