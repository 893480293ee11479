package randomwalk

import "slices"

// shortest is how many of the last operations are tried first: what happened hours ago is
// seldom needed, and takes hours to repeat.
const shortest = 16

// Shrink returns the shortest sequence that it finds of operations that fail: of the last of
// them, as many as are needed, without ever smaller parts as long as what is left fails, as
// delta debugging does. It returns the shortest so far where fails returns an error.
func Shrink(operations []Operation, fails func([]Operation) (bool, error)) ([]Operation, error) {
	for last := shortest; last < len(operations); last *= 2 {
		candidate := operations[len(operations)-last:]
		failed, err := fails(candidate)
		if err != nil {
			return operations, err
		}
		if failed {
			operations = candidate
			break
		}
	}
	for part := max(1, len(operations)/2); ; part = max(1, part/2) {
		before := len(operations)
		for begin := 0; begin < len(operations); {
			candidate := slices.Concat(operations[:begin], operations[min(begin+part, len(operations)):])
			failed, err := fails(candidate)
			if err != nil {
				return operations, err
			}
			if failed {
				operations = candidate
			} else {
				begin += part
			}
		}
		if part == 1 && len(operations) == before {
			return operations, nil
		}
	}
}
