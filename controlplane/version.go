package controlplane

import (
	_ "unsafe" // for go:linkname

	"k8s.io/component-base/version"
)

// KubernetesVersion is what the API server says it is.
const KubernetesVersion = "v1.37.1"

// A library build of Kubernetes calls itself v0.0.0-master, which clients cannot parse.
// Release builds set these variables with linker flags; setting them here instead keeps a
// plain `go build` and `go install` enough.

//go:linkname gitVersion k8s.io/component-base/version.gitVersion
var gitVersion string

//go:linkname gitMajor k8s.io/component-base/version.gitMajor
var gitMajor string

//go:linkname gitMinor k8s.io/component-base/version.gitMinor
var gitMinor string

func setVersion() error {
	gitVersion, gitMajor, gitMinor = KubernetesVersion, "1", "37"
	return version.SetDynamicVersion(KubernetesVersion)
}
