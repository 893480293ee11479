package prove

import "testing"

func TestASelectionWithoutAControlIsAnError(t *testing.T) {
	selected, err := ParseSelection("live-claims,fence")
	if err != nil {
		t.Fatal(err)
	}
	var report Report
	if err := runControls(t.Context(), nil, Options{OnlyControls: true, Select: selected}, &results{}, &report); err == nil || len(report.Controls) != 0 {
		t.Errorf("got %v, %+v", err, report.Controls)
	}
}
