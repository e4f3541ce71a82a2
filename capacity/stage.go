package capacity

import "fmt"

// Stage is how far a GPU has come.
type Stage uint8

const (
	Paid        Stage = iota // for a reservation or a machine that is paid for
	Launched                 // the provider has given a machine
	Registered               // the machine is a node
	Ready                    // its kubelet says so, and answers
	Advertised               // the node offers the GPU, or a driver does in a slice
	Healthy                  // and it is not found sick
	Schedulable              // new work may be placed on it
	Allocated                // a pod holds it; also on a node that takes no new work
	Busy                     // and it was measured to do something
	stages      = int(Busy) + 1
)

var stageNames = [stages]string{"paid", "launched", "registered", "ready", "advertised", "healthy", "schedulable", "allocated", "busy"}

// Stages are all of them in order.
func Stages() []Stage {
	out := make([]Stage, stages)
	for i := range out {
		out[i] = Stage(i)
	}
	return out
}

func (s Stage) String() string {
	if int(s) < stages {
		return stageNames[s]
	}
	return fmt.Sprintf("stage %d", uint8(s))
}

// MarshalText writes the name.
func (s Stage) MarshalText() ([]byte, error) {
	if int(s) >= stages {
		return nil, fmt.Errorf("there is no stage %d", uint8(s))
	}
	return []byte(stageNames[s]), nil
}

// UnmarshalText reads the name.
func (s *Stage) UnmarshalText(text []byte) error {
	for i, name := range stageNames {
		if name == string(text) {
			*s = Stage(i)
			return nil
		}
	}
	return fmt.Errorf("there is no stage %q", text)
}
