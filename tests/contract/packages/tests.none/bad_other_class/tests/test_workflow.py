class Checks:
    def test_x(self):
        assert True
