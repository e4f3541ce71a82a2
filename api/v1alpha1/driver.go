package v1alpha1

import "strings"

// driverBranch is one branch of NVIDIA's data-center driver: a release of it, and the CUDA
// version it came with.
type driverBranch struct{ version, cuda string }

// driverBranches lists the branches that are met in clusters, the default first.
func driverBranches() []driverBranch {
	return []driverBranch{
		{"580.95.05", "13.0"},
		{"590.44.01", "13.1"},
		{"575.57.08", "12.9"},
		{"570.133.20", "12.8"},
		{"565.57.01", "12.7"},
		{"560.35.05", "12.6"},
		{"555.42.06", "12.5"},
		{"550.127.08", "12.4"},
		{"545.23.08", "12.3"},
		{"535.216.03", "12.2"},
		{"530.30.02", "12.1"},
		{"525.147.05", "12.0"},
		{"520.61.05", "11.8"},
		{"515.105.01", "11.7"},
		{"510.108.03", "11.6"},
		{"470.256.02", "11.4"},
		{"450.248.02", "11.0"},
	}
}

// defaultDriver completes a driver from the half that is given. A branch or CUDA version
// that is not in the list leaves the other half empty, and Validate asks for it.
func defaultDriver(d *Driver) {
	for _, b := range driverBranches() {
		switch {
		case d.Version == "" && d.CUDA == "":
			d.Version, d.CUDA = b.version, b.cuda
		case d.Version == "" && d.CUDA == b.cuda:
			d.Version = b.version
		case d.CUDA == "" && branchOf(d.Version) == branchOf(b.version):
			d.CUDA = b.cuda
		}
	}
}

// branchOf is the major number of a driver version: 580 of 580.95.05.
func branchOf(version string) string {
	branch, _, _ := strings.Cut(version, ".")
	return branch
}
