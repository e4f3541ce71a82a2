package diagnose

import "fmt"

// number is a count with its noun: "1 GPU", "3 GPUs".
func number[N int | int32 | int64](n N, noun string) string {
	return fmt.Sprintf("%d %s", n, inNumber(n, noun, noun+"s"))
}

// inNumber is the word that goes with a count: "1 has", "3 have".
func inNumber[N int | int32 | int64](n N, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}
