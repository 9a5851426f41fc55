function exportAs() {}
