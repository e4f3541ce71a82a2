// Package l1 has the causes of capacity supply: a cloud has no machines, allows no more, or holds them in a reservation.
// Each cause is a file and a line in list.go. Package diagnose runs them.
package l1
