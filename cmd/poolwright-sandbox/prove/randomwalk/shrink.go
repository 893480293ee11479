package randomwalk

import "slices"

// Shrink returns the shortest sequence that it finds of operations that fail, by leaving out
// ever smaller parts as long as what is left fails, as delta debugging does. It returns the
// shortest so far where fails returns an error.
func Shrink(operations []Operation, fails func([]Operation) (bool, error)) ([]Operation, error) {
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
