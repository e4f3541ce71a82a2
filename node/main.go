// Command node joins a real node to Berth's embedded control plane and plays on it what simulated nodes cannot prove: a
// kubelet, containerd and runc that nobody here wrote run the scheduler's image and the gangs that it binds, while a device
// plugin is killed, the kubelet is restarted and the node is rebooted. Everything runs in namespaces of its own and ends with
// them. `make test-node` calls it (docs/node.md). It looks at Berth from the outside alone: through its binaries, the API
// server, the kubelet's sockets and the scheduler's metrics. The module is separate because the kubelet needs modules
// that Berth does not.
package main

import (
	"fmt"
	"os"
)

// The roles of this one binary. People start check and test; test starts the others, in namespaces and in containers.
var roles = map[string]func(args []string) int{
	"check":   check,   // says what the machine does not allow
	"test":    test,    // makes the namespaces, and the rest in them
	"stage":   stage,   // process 1 of the namespaces that hold the cluster and the test
	"play":    play,    // the test
	"machine": machine, // process 1 of the node
	"plugin":  plugin,  // the device plugin, on the node
	"pause":   pause,   // process 1 of a pod
	"work":    work,    // what a member of a gang runs
}

func main() {
	if len(os.Args) > 1 {
		if role, ok := roles[os.Args[1]]; ok {
			os.Exit(role(os.Args[2:]))
		}
	}
	fmt.Fprintln(os.Stderr, "usage: node test -berth FILE -tools FOLDER -image TAR")
	os.Exit(2)
}
