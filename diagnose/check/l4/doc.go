// Package l4 has the causes of the workload itself: its image, volumes and configuration, crashes, and peers that do not
// come. Each cause is a file and a line in list.go. Package diagnose runs them.
package l4
