// Package openb replays the packing study of the FGD paper (USENIX ATC'23) on Alibaba's openb trace: the same nodes, the
// same inflated arrival lists, the same metric, with a policy of the caller's choice.
//
// Pods arrive one by one, are tried once, never leave and are never tried again. The measure is the share of GPUs that is
// unallocated when the pods that have arrived ask for 100 % of the GPUs, as the paper defines it. BestFit and FGD are here
// as references whose results are published; Berth's own policy is package fragment's score behind the same interface.
//
// The package reads a trace from an fs.FS and holds no state between runs. It is a tool: tests and the command
// engine/internal/packing call it, and no program of Berth's contains it. The trace is not part of this repository.
package openb
